"""What serves the teaching and not the model."""

from .controls import controls
from .quiz import Question, quiz
from .records import recorded
from .widgets.layers import show_layers
from .widgets.map import show_map
from .widgets.visibility import show_visibility

__all__ = ["Question", "controls", "quiz", "recorded", "show_layers", "show_map", "show_visibility"]
