from .attention.attend import Attended as Attended
from .attention.attend import attend as attend
from .attention.masks import Causal as Causal
from .attention.masks import Documents as Documents
from .attention.masks import Keep as Keep
from .attention.masks import Mask as Mask
from .attention.masks import Padding as Padding
from .attention.masks import Window as Window
from .attention.multi_head import MultiHeadAttention as MultiHeadAttention
from .attention.multi_head import MultiHeadRead as MultiHeadRead
from .attention.normalise.softmax import Softmax as Softmax
from .attention.pattern import Pattern as Pattern
from .attention.positions import Rotary as Rotary
from .attention.scores.dot import Dot as Dot
from .attention.scores.dot import ScaledDot as ScaledDot
from .attention.steps import Steps as Steps
from .attention.summary import Summary as Summary
from .attention.summary import Top as Top
from .errors import InputError as InputError
from .tracing.head import Head as Head
from .tracing.huggingface import install as install
from .tracing.trace import Trace as Trace
from .tracing.trace import trace as trace

__version__: str
