"""What serves the teaching and not the model."""

from .controls import controls
from .quiz import Question, quiz
from .widgets.map import show_map

__all__ = ["Question", "controls", "quiz", "show_map"]
