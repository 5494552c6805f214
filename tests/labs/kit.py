"""What the answers in tests/labs are made of: mutants with their causes, and loading by path (labels are no module names)."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """A wrong answer: for which function, how, and what the message must say about it."""

    function: str
    cause: str
    wrong: object

    @property
    def name(self) -> str:
        return self.wrong.__name__


class Mutants(list):
    """A list that fills itself: @mutants("pool_pairs", "over the channels")."""

    def __call__(self, function: str, cause: str):
        def keep(wrong):
            self.append(Mutant(function, cause, wrong))
            return wrong

        return keep


def module(label: str, name: str):
    """tests/labs/<label>/<name>.py, executed; None where it does not exist."""
    path = HERE / label / f"{name}.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(f"labs_{label}_{name}", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def steps_with(name: str) -> list[str]:
    """Labels of the steps that have this file."""
    return sorted(path.parent.name for path in HERE.glob(f"*/{name}.py"))
