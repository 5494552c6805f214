from flash41.entry import ENTRY

NAMED = {"entry": ENTRY}
EXCEPTIONS: dict[str, str] = {}
