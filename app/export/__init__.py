"""Exports stored answers to other formats: bills of materials and deployment files.

Exports read only the stored answer, so they do not change when catalog prices change.
"""
