"""Modules that torch has in other files than this package: `import shoal.backends.cudnn as cudnn` and
`from shoal.nn.utils.rnn import pad_sequence` work as in torch."""
import importlib
import importlib.machinery
import sys

# The module of torch, without "torch.", -> the module here, and what in it stands for that one; None: itself.
MOVED = {
    "autograd.function": ("autograd", None), "autograd.functional": ("autograd", "functional"),
    "autograd.variable": ("autograd", None), "backends": ("places", "backends"),
    "backends.cudnn": ("places", "cudnn"), "backends.mps": ("places", "mps"), "cuda": ("places", "cuda"),
    "cuda.amp": ("places", "amp"), "version": ("places", "version"), "nn.parameter": ("nn.module", None),
    "nn.utils.clip_grad": ("nn.utils", None), "nn.utils.parametrizations": ("nn.utils", None),
    "nn.modules": ("nn", None), "nn.utils.rnn": ("nn.rnn", None), "utils.checkpoint": ("utils", "checkpoint"),
} | {
    f"nn.modules.{name}": ("nn", None) for name in """activation batchnorm container conv dropout linear loss module
    normalization pooling rnn sparse transformer""".split()} | {
    f"utils.data.{name}": ("utils.data", None) for name in "dataloader dataset sampler".split()} | {
    f"optim.{name}": ("optim", None) for name in "adam adamw sgd".split()} | {
    f"distributions.{name}": ("distributions", None) for name in """bernoulli beta binomial categorical cauchy chi2
    dirichlet exponential gamma geometric gumbel half_cauchy half_normal independent laplace log_normal
    mixture_same_family multinomial multivariate_normal negative_binomial normal one_hot_categorical pareto poisson studentT
    transformed_distribution uniform von_mises weibull""".split()}


class _Finder:
    """Finds those modules, before all others: files beside them may have the same name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        """What the import system asks for each module."""
        package, _, rest = name.partition(".")
        return importlib.machinery.ModuleSpec(name, _Finder) if package == "shoal" and rest in MOVED else None

    @staticmethod
    def create_module(spec):
        """None: a new module, for a moment."""

    @staticmethod
    def exec_module(module):
        """Has the module's name stand for what is in its place here."""
        path, own = MOVED[module.__name__.partition(".")[2]]
        found = importlib.import_module(f"shoal.{path}")
        found = found if own is None else getattr(found, own)
        sys.modules[module.__name__] = found


sys.meta_path.insert(0, _Finder)
