"""The decoder: from a target's tokens so far, and a source to look back at, what comes next.

Luong's form looks with the state after the step. With s_t that state, h_i the encoder's and e(y) an embedding:

    s_t  = cell(s_{t-1}, e(y_{t-1}))                    with input feeding: cell(s_{t-1}, [e(y_{t-1}) ; s̃_{t-1}])
    e^t  = [score(s_t, h_1), …, score(s_t, h_N)]        the dot product: s_tᵀ h_i
    α^t  = softmax(e^t)
    a_t  = Σ_i α^t_i h_i
    v_t  = [a_t ; s_t]
    s̃_t  = tanh(W_c v_t + b_c)
    ŷ_t  = softmax(W_y s̃_t + b_y)

Bahdanau's form looks with the state before the step, and the cell takes in what was read:

    α^t  = softmax of score(s_{t-1}, h_i)               a_t = Σ_i α^t_i h_i
    s_t  = cell(s_{t-1}, [e(y_{t-1}) ; a_t])
    s̃_t  = tanh(W_c [a_t ; s_t ; e(y_{t-1})] + b_c)     ŷ_t = softmax(W_y s̃_t + b_y)

Departure: Bahdanau et al. have a maxout layer of s_{t-1} where s̃ is.

Source: Luong, Pham & Manning 2015, section 3, equations 5 and 6; Bahdanau, Cho & Bengio 2015, section 3.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.pattern import Pattern
from regard.kernels.linear import Linear, as_tensors, nothing_extra
from regard.recurrent.cell import Cells, Hidden
from regard.recurrent.config import RecurrentConfig
from regard.recurrent.encoder import Encoded
from regard.recurrent.reader import Memory, Reader


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """What a decoder knows between two steps. A value: a step gives a new one and leaves this one as it is.

    Attributes:
        memory: the source, ready to be read.
        hidden: what the cells know.
        output: s̃ of the last step, which input feeding takes; 0 before the first.
        weights: where the last step looked, which a location-aware score takes; 0 before the first.
        n_tokens: how many target tokens have been read.
        to_logits: the output projection as its tensors; None = the module itself makes logits.
    """

    memory: Memory
    hidden: Hidden
    output: Float[Tensor, "batch d_model"]
    weights: Float[Tensor, "batch source"]
    n_tokens: int
    to_logits: Linear | None = None

    def select(self, rows: Int[Tensor, " rows"]) -> "State":
        """The state of some rows of the batch, in the order asked for; a row may come several times."""
        return replace(
            self,
            memory=self.memory.select(rows),
            hidden=tuple(part.index_select(1, rows) for part in self.hidden),
            output=self.output.index_select(0, rows),
            weights=self.weights.index_select(0, rows),
        )

    def __repr__(self) -> str:
        rows, source = self.weights.shape
        return f"State(n_tokens={self.n_tokens}, rows={rows}, source={source}, layers={len(self.hidden[0])})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decoded:
    """What a decoder expects after each token it was given, and where it looked.

    Attributes:
        logits: for each token, scores of what comes after it.
        state: what the next call takes to go on from here.
        pattern: which tokens of the target looked at which of the source.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    state: State
    pattern: Pattern


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """One token's way through the decoder.

    Attributes:
        query: the state it looked with.
        before: where the token before it had looked.
        state: what is known after it.
    """

    query: Float[Tensor, "batch 1 d_model"]
    before: Float[Tensor, "batch source"]
    state: State


class Decoder(nn.Module):
    """Embedding, cells, attention over the source and the output projection.

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
        n_parts = 2 if config.cell == "lstm" else 1
        self.bridges = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(n_parts * config.n_layers))
        self.reader = Reader(config)
        self.combine = nn.Linear((3 if config.form == "bahdanau" else 2) * d_model, d_model)
        self.to_logits = nn.Linear(d_model, config.n_target_tokens)
        if config.share == "target":
            self.to_logits.weight = self.embedding.weight
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small vectors, matrices that keep the size of what goes through (Glorot & Bengio 2010), and biases 0."""
        for matrix in (self.embedding.weight, self.to_logits.weight):
            nn.init.uniform_(matrix, -0.1, 0.1)
        for layer in (*self.bridges, self.combine):
            nn.init.xavier_uniform_(layer.weight)
        for layer in (*self.bridges, self.combine, self.to_logits):
            nn.init.zeros_(layer.bias)

    def start(self, encoded: Encoded, lengths: Int[Tensor, " batch"]) -> State:
        """The state before the first token: the source ready to be read, and the cells told what the encoder's know.

            hidden = tanh(W last + b)          for each layer, and for an LSTM's state and memory

        Source: Bahdanau, Cho & Bengio 2015, appendix A.2.2; there from the backward cell alone.
        """
        memory = self.reader.prepare(encoded.states, lengths)
        bridges = iter(self.bridges)
        hidden = tuple(torch.stack([torch.tanh(next(bridges)(h)) for h in part]) for part in encoded.last)
        return State(
            memory=memory,
            hidden=hidden,
            output=torch.zeros_like(encoded.states[:, 0]),
            weights=torch.zeros_like(encoded.states[:, :, 0]),
            n_tokens=0,
            to_logits=as_tensors(self.to_logits),
        )

    def forward(self, tokens: Int[Tensor, "batch target"], state: State) -> Decoded:
        """Read the next tokens of each row.

        Args:
            tokens: ids; the first of a text is BOS. Rows that are shorter are padded on the right, which those before
                never see.
            state: from `start`, or from the tokens before these.
        """
        outputs, after, pattern = self.read(tokens, state)
        bare = after.to_logits if nothing_extra(tokens.device) else None
        return Decoded(logits=(bare or self.to_logits)(outputs), state=after, pattern=pattern)

    def read(
        self, tokens: Int[Tensor, "batch target"], state: State
    ) -> tuple[Float[Tensor, "batch target d_model"], State, Pattern]:
        """What the output projection takes for each token, and what else a `Decoded` has."""
        embedded = self.dropout(self.embedding(tokens))
        if self.form == "luong" and not self.reader.looks_back:
            return self.at_once(embedded, state)
        turns, first = list(self.turns(embedded, state)), state.n_tokens
        outputs = torch.stack([turn.state.output for turn in turns], dim=1)
        queries = torch.cat([turn.query for turn in turns], dim=1)
        before = torch.stack([turn.before for turn in turns], dim=1)
        pattern = self.reader.pattern(queries, state.memory, first=first, before=before)
        return self.dropout(outputs), turns[-1].state, pattern

    def at_once(
        self, embedded: Float[Tensor, "batch target d_model"], state: State
    ) -> tuple[Float[Tensor, "batch target d_model"], State, Pattern]:
        """All tokens together, where no step waits for what the one before it has read."""
        states, hidden = self.cells(embedded, state.hidden)
        read = self.reader(states, state.memory, first=state.n_tokens)
        outputs = self.combined(read.context[:, 0], states, embedded)
        after = replace(state, hidden=hidden, output=outputs[:, -1], n_tokens=state.n_tokens + embedded.shape[1])
        return self.dropout(outputs), after, read.pattern

    def turns(self, embedded: Float[Tensor, "batch target d_model"], state: State) -> Iterator[Turn]:
        """One token after the other."""
        for token in torch.split(embedded, 1, dim=1):
            turn = self.turn(token, state)
            yield turn
            state = turn.state

    def turn(self, token: Float[Tensor, "batch 1 d_model"], state: State) -> Turn:
        """One token, by its embedding."""
        if self.form == "bahdanau":
            query = state.hidden[0][-1][:, None]
            context, weights = self.look(query, state)
            states, hidden = self.cells(torch.cat([token, context], dim=2), state.hidden)
        else:
            fed = torch.cat([token, state.output[:, None]], dim=2) if self.form == "luong_feeding" else token
            query, hidden = self.cells(fed, state.hidden)
            states, (context, weights) = query, self.look(query, state)
        output = self.combined(context, states, token)[:, 0]
        after = replace(state, hidden=hidden, output=output, weights=weights, n_tokens=state.n_tokens + 1)
        return Turn(query=query, before=state.weights, state=after)

    def look(
        self, query: Float[Tensor, "batch 1 d_model"], state: State
    ) -> tuple[Float[Tensor, "batch 1 d_model"], Float[Tensor, "batch source"]]:
        """What one state reads; and with which weights, where the next one must know."""
        if not self.reader.looks_back:
            return self.reader(query, state.memory, first=state.n_tokens).context[:, 0], state.weights
        pattern = self.reader.pattern(query, state.memory, first=state.n_tokens, before=state.weights[:, None])
        weights = pattern.weights(pattern.grid.whole())[:, 0].to(state.weights)
        return weights @ state.memory.states, weights[:, 0]

    def combined(self, context: Tensor, states: Tensor, embedded: Tensor) -> Float[Tensor, "batch target d_model"]:
        """s̃ = tanh(W_c v + b_c)."""
        parts = [context, states, embedded] if self.form == "bahdanau" else [context, states]
        return torch.tanh(self.combine(torch.cat(parts, dim=2)))
