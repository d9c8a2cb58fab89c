"""Disaggregated serving: prefill and decode pools are sized as separate services, with the KV cache transferred
between.
"""
