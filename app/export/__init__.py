"""An answer in somebody else's format: bills of materials, and files that start what was recommended. Stored answers
alone are read: an export says what the answer said, whatever prices have done since.
"""
