"""The recurrent decoder: it predicts the next target token from the tokens so far and from attention to the source.

In Luong's form, the attention query is the state after the cell's step. With s_t the decoder's state, h_i the encoder's
states and e(y) the embedding of token y:

    s_t  = cell(s_{t-1}, e(y_{t-1}))                    with input feeding: cell(s_{t-1}, [e(y_{t-1}) ; s̃_{t-1}])
    e^t  = [score(s_t, h_1), …, score(s_t, h_N)]        attention scores; the dot product: s_tᵀ h_i
    α^t  = softmax(e^t)                                 attention distribution
    a_t  = Σ_i α^t_i h_i                                context vector
    v_t  = [a_t ; s_t]
    s̃_t  = tanh(W_c v_t + b_c)
    ŷ_t  = softmax(W_y s̃_t + b_y)                       prediction

In Bahdanau's form, the attention query is the state before the step, and the context vector is an input of the cell:

    α^t  = softmax of score(s_{t-1}, h_i)               a_t = Σ_i α^t_i h_i
    s_t  = cell(s_{t-1}, [e(y_{t-1}) ; a_t])
    s̃_t  = tanh(W_c [a_t ; s_t ; e(y_{t-1})] + b_c)     ŷ_t = softmax(W_y s̃_t + b_y)

Departure: Bahdanau et al. have a maxout layer of s_{t-1} in place of s̃.

Source: Luong, Pham & Manning 2015, section 3, equations 5 and 6; Bahdanau, Cho & Bengio 2015, section 3.1.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks.lengths import check_token_ids
from regard.attention.pattern import Pattern
from regard.recurrent.attention import Memory, SourceAttention
from regard.recurrent.cell import Cells, Hidden
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.encoder import Encoded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """The state of a decoder between two steps. A step returns a new state and does not change the old state.

    Attributes:
        hidden: the states of the cells after the last token.
        output: the attention vector s̃ of the last step: context vector and state, combined; 0 before the first step.
        weights: the attention weights of the last step; 0 before the first step. Only the score "location_aware" reads
            them: with any other score, they stay 0.
    """

    memory: Memory
    hidden: Hidden
    output: Float[Tensor, "batch d_model"]
    weights: Float[Tensor, "batch source"]
    n_tokens: int

    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """Return the state of the batch items with the indices `rows`, in this order; an index may be repeated."""
        return replace(
            self,
            memory=self.memory.select(rows),
            hidden=tuple(tensor.index_select(1, rows) for tensor in self.hidden),
            output=self.output.index_select(0, rows),
            weights=self.weights.index_select(0, rows),
        )

    def __repr__(self) -> str:
        rows, source = self.weights.shape
        return f"State(n_tokens={self.n_tokens}, rows={rows}, source={source}, layers={len(self.hidden[0])})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """For each input token, the logits of the token that follows it; the state is an argument of the next call.

    Attributes:
        cross: a tuple of one `Pattern` with one head: the attention of the input tokens to the source tokens.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    state: State
    cross: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecoderStep:
    """The output of `Decoder.step`, which reads one token of each batch item.

    Attributes:
        query: the attention query: the state s_t after this step, or in Bahdanau's form the state s_{t-1} before it.
        previous: the attention weights of the step before this one.
        state: the state after this step.
    """

    query: Float[Tensor, "batch 1 d_model"]
    previous: Float[Tensor, "batch source"]
    state: State


class Decoder(nn.Module):
    """A decoder: embedding, LSTM or GRU cells, attention to the source, and output projection.

    >>> from regard.recurrent.encoder import Encoder
    >>> config = RecurrentConfig.preset("tiny", n_source_tokens=97, n_target_tokens=89)
    >>> encoder, decoder, lengths = Encoder(config), Decoder(config), torch.tensor([3, 2])
    >>> state = decoder.start(encoder(torch.tensor([[5, 7, 3], [11, 3, 0]]), lengths), lengths)
    >>> state
    State(n_tokens=0, rows=2, source=3, layers=1)
    >>> decoder(torch.tensor([[2], [2]]), state).logits.shape
    torch.Size([2, 1, 89])
    """

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.form, d_model = config.form, config.d_model
        self.embedding = nn.Embedding(config.n_target_tokens, d_model)
        self.dropout = nn.Dropout(config.dropout)
        d_input = d_model if config.form == "luong" else 2 * d_model
        self.cells = Cells(config.cell, d_input, d_model, config.n_layers, config.dropout)
        n_states = 2 if config.cell == "lstm" else 1
        self.bridges = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_states * config.n_layers))
        self.reader = SourceAttention(config)  # this name is in the files of saved translators
        n_combined = 3 if config.form == "bahdanau" else 2
        self.combine = nn.Linear(n_combined * d_model, d_model)
        self.to_logits = nn.Linear(d_model, config.n_target_tokens)
        if config.share == "target":
            self.to_logits.weight = self.embedding.weight
        self.reset_parameters()

    def forward(self, tokens: Int[Tensor, "batch target"], state: State) -> Decoded:
        """Return, for each input token, the logits of the token that follows it.

        Args:
            tokens: the next token ids of each target, one or more, padded on the right; a target begins with BOS. The
                logits of a token do not depend on later tokens.
            state: for the first tokens of the targets, the result of `start`; for later tokens, `Decoded.state` of the
                previous call.
        """
        outputs, new_state, pattern = self.outputs(tokens, state)
        return Decoded(logits=self.to_logits(outputs), state=new_state, cross=(pattern,))

    def outputs(
        self, tokens: Int[Tensor, "batch target"], state: State
    ) -> tuple[Float[Tensor, "batch target d_model"], State, Pattern]:
        """Return the vectors s̃ (context vector and state, combined) after dropout, the last state, and the attention.

        `forward` has the same arguments; its logits are the output projection of s̃.
        """
        check_token_ids("tokens", tokens, self.embedding.num_embeddings)
        if len(tokens) != len(state.output):
            raise ValueError(
                f"the targets have a batch of {len(tokens)} and the sources a batch of {len(state.output)}; give one "
                "target for each source."
            )
        embedded = self.dropout(self.embedding(tokens))
        if self.form == "luong" and not self.reader.is_location_aware:
            return self.outputs_in_parallel(embedded, state)
        first, steps = state.n_tokens, []
        for token in torch.split(embedded, 1, dim=1):
            steps.append(self.step(token, state))
            state = steps[-1].state
        outputs = torch.stack([step.state.output for step in steps], dim=1)
        queries = torch.cat([step.query for step in steps], dim=1)
        previous = torch.stack([step.previous for step in steps], dim=1)
        return self.dropout(outputs), state, self.reader.pattern(queries, state.memory, first=first, previous=previous)

    def step(self, embedded: Float[Tensor, "batch 1 d_model"], state: State) -> DecoderStep:
        """Read one token of each batch item; `embedded` has the embeddings e(y_{t-1}) of these tokens."""
        if self.form == "bahdanau":
            query = state.hidden[0][-1][:, None]  # s_{t-1} of the last layer
            context, weights = self.attend(query, state)
            s, hidden = self.cells(torch.cat([embedded, context], dim=2), state.hidden)
        else:
            has_input_feeding = self.form == "luong_feeding"
            cell_input = torch.cat([embedded, state.output[:, None]], dim=2) if has_input_feeding else embedded
            s, hidden = self.cells(cell_input, state.hidden)
            query = s
            context, weights = self.attend(query, state)
        output = self.attention_vector(context, s, embedded)[:, 0]
        new_state = replace(state, hidden=hidden, output=output, weights=weights, n_tokens=state.n_tokens + 1)
        return DecoderStep(query=query, previous=state.weights, state=new_state)

    def attend(
        self, query: Float[Tensor, "batch 1 d_model"], state: State
    ) -> tuple[Float[Tensor, "batch 1 d_model"], Float[Tensor, "batch source"]]:
        """Attend to the source; return the context vector and `State.weights` for the next step.

        A location-aware score reads the attention weights of the step before; for any other score, `State.weights`
        stays 0.
        """
        if not self.reader.is_location_aware:
            return self.reader(query, state.memory, first=state.n_tokens).context[:, 0], state.weights
        pattern = self.reader.pattern(query, state.memory, first=state.n_tokens, previous=state.weights[:, None])
        all_weights = pattern.weights(pattern.grid.whole())  # [batch 1 1 source]: one head, one query
        weights = all_weights[:, 0].to(state.weights)
        return weights @ state.memory.states, weights[:, 0]

    def attention_vector(self, context: Tensor, s: Tensor, embedded: Tensor) -> Float[Tensor, "batch target d_model"]:
        """Return s̃ = tanh(W_c v + b_c); v joins context vector, state s and, in Bahdanau's form, embedding."""
        v = [context, s, embedded] if self.form == "bahdanau" else [context, s]
        return torch.tanh(self.combine(torch.cat(v, dim=2)))

    def outputs_in_parallel(
        self, embedded: Float[Tensor, "batch target d_model"], state: State
    ) -> tuple[Float[Tensor, "batch target d_model"], State, Pattern]:
        """Compute all tokens at once; the result is that of `outputs`.

        This is possible in Luong's form without input feeding if the score is not location-aware: then no step needs
        the context vector or the attention weights of an earlier step.
        """
        s, hidden = self.cells(embedded, state.hidden)
        attended = self.reader(s, state.memory, first=state.n_tokens)
        outputs = self.attention_vector(attended.context[:, 0], s, embedded)
        new_state = replace(state, hidden=hidden, output=outputs[:, -1], n_tokens=state.n_tokens + embedded.shape[1])
        return self.dropout(outputs), new_state, attended.pattern

    def start(self, encoded: Encoded, lengths: Int[Tensor, " batch"]) -> State:
        """Return the state before the first target token, computed from the encoder's final states.

            hidden = tanh(W last + b)

        `last` is the encoder's final state in a layer. Each layer has its own W and b. In an LSTM, the memory cell
        has a second W and b.

        Args:
            lengths: the number of tokens of each source before its padding.

        Source: Bahdanau, Cho & Bengio 2015, appendix A.2.2.

        Departure: the paper uses only the final state of the backward cell, not that of the forward cell.
        """
        bridges = iter(self.bridges)  # one for the state of each layer; in an LSTM, then one for each memory cell
        hidden = tuple(torch.stack([torch.tanh(next(bridges)(h)) for h in layers]) for layers in encoded.last)
        return State(
            memory=self.reader.prepare(encoded.states, lengths),
            hidden=hidden,
            output=torch.zeros_like(encoded.states[:, 0]),
            weights=torch.zeros_like(encoded.states[:, :, 0]),
            n_tokens=0,
        )

    def reset_parameters(self) -> None:
        """Initialise all parameters but those of cells and attention: biases with 0, matrices at random.

        Embedding and output projection are uniform in [-0.1, 0.1]; all other matrices are as in Glorot & Bengio 2010.
        """
        for matrix in (self.embedding.weight, self.to_logits.weight):
            nn.init.uniform_(matrix, -0.1, 0.1)
        for layer in (*self.bridges, self.combine):
            nn.init.xavier_uniform_(layer.weight)
        for layer in (*self.bridges, self.combine, self.to_logits):
            nn.init.zeros_(layer.bias)
