"""flash41: DeepSeek-V4.1-Flash, block by block, in code that is short enough to read. Not affiliated with DeepSeek."""

__version__ = "0.1.0"
