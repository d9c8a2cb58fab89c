"""Parsers for the text of engines, accelerator exporters and trainers. They turn text into plain observations."""
