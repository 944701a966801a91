"""Traces: the attention patterns of a model, in every layer and head.

Record the attention of any PyTorch module:

watching.py           record every attention call of a module: `regard.watching`
answered_pattern.py   keep statistics in place of queries and keys: `ask=Ask(…)`; answered_file.py: in a trace file
interception.py       intercept the attention calls of PyTorch code
written_out.py        recognise attention that is computed by separate tensor operations
sdpa_call.py          convert a call of F.scaled_dot_product_attention to a `Call`
flex_call.py          convert the score and the mask of a FlexAttention call
four_axes.py          reshape tensors of other models to [batch heads queries keys]
running_modules.py    find out which module is running
shared_cache.py       store keys and values once for all steps of a generation
changing.py           change the attention of a model while it runs: `regard.changed`

Run a Hugging Face model:

run.py                run a model and record its attention: `regard.trace`
reading.py            prepare the input of a model: text, picture or recording
prompt.py             a text, the messages of a chat, or token ids
encoding.py           encode a text as input tensors
media.py              encode pictures and recordings as input tensors
picture_layout.py     the places of tokens in pictures that are divided into one grid of patches each
merged_patches.py     pictures and videos of models that merge squares of patches
tiles.py              pictures that are cut into tiles, with a thumbnail
joined_calls.py       join the attention calls for windows or tiles to one call
shifted_windows.py    the shifted windows of Swin
writing.py            let a model generate text
attention_kind.py     the kind of attention that a module computes: encoder, decoder or cross
layer_states.py       record the vectors before, inside and after every layer
model_loading.py      load a model with its tokenizer or processor
huggingface.py        make a model compute its attention through regard: `regard.install`

The record:

trace.py              `Trace`
trace_file.py         save a trace to a file and load it
patterns_by_layer.py  the patterns of one kind of attention
head.py               one head of a trace, indexed by tokens; the average over the heads of a layer
merged_pattern.py     patterns of words, and averages over heads
words.py              the words of a text, from its tokens
check.py              compare recomputed contexts with those of the model's kernels
readable_tokens.py    `Token`: a token with its readable text
token_reference.py    find a token by its position or its text
places.py             the part of a picture or a recording that a token stands for
focus.py              choose the query token and the head that a view shows
comparison.py         find the differences of two traces: `regard.compare`
roles.py              what every head attends to; scan.py: over a file of texts
"""
