"""Records the attention calls of a model.

Of any PyTorch module:

watching.py           record every attention call of a module: `regard.watching`
watched.py            the record, and the check that its contexts are those of its patterns
recorder.py           intercept attention calls of PyTorch code and add them to the record
written_out.py        recognise attention that is computed by separate tensor operations
products.py           recognise scores and contexts among products of two tensors
origins.py            how scores, weights and the steps towards contexts were computed
named_axes.py         follow the axes of a tensor through views, transpositions and products
matrix_chains.py      notice attention that is computed in a form that is not recognised
sdpa_call.py          convert a call of F.scaled_dot_product_attention to a `Call`
flex_call.py          convert a FlexAttention call to a `Call`
four_axes.py          reshape tensors of other models to [batch heads queries keys]
running_modules.py    find out which module is running

Of a Hugging Face model:

huggingface.py        make a model compute its attention through regard: `regard.install`
changing.py           change the attention of a model while it runs: `regard.changed`
attention_kind.py     the kind of attention that a module computes: encoder, decoder or cross
layer_states.py       record the vectors before, inside and after every layer

What is stored of the calls:

shared_cache.py       store keys and values once for all decoding steps of a generated text
answered_pattern.py   keep statistics in place of queries and keys: `ask=Ask(…)`
joined_calls.py       join the attention calls for windows or tiles to one call
diagonal_bias.py      the bias of joined calls
shifted_windows.py    join the shifted windows of Swin
"""
