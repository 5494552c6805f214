"""What serves the teaching and not the model."""

from .controls import controls
from .quiz import Question, quiz
from .widgets.capacity import show_capacity
from .widgets.fp4 import show_fp4
from .widgets.ladder import show_ladder
from .widgets.map import show_map
from .widgets.mixing import show_mixing

__all__ = ["Question", "controls", "quiz", "show_capacity", "show_fp4", "show_ladder", "show_map", "show_mixing"]
