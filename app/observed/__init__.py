"""Text that engines, accelerators and trainers write, read into plain observations: text in, figures out, no more."""
