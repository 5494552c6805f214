"""What serves the teaching and not the model."""

from .controls import controls
from .quiz import Question, quiz

__all__ = ["Question", "controls", "quiz"]
