"""What serves the teaching and not the model."""

from .controls import controls
from .quiz import Question, quiz
from .records import recorded
from .widgets.capacity import show_capacity
from .widgets.fp4 import show_fp4
from .widgets.ladder import show_ladder
from .widgets.layers import show_layers
from .widgets.map import show_map
from .widgets.mixing import show_mixing
from .widgets.visibility import show_visibility

__all__ = ["Question", "controls", "quiz", "recorded", "show_capacity", "show_fp4", "show_ladder", "show_layers", "show_map",
           "show_mixing", "show_visibility"]  # fmt: skip
