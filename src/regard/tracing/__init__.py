"""Looking inside models: run one on a text and keep who looks at whom, in every layer and head.

Start with `trace.py`; `huggingface.py` is how regard gets into a Hugging Face model.
"""
