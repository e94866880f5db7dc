"""The explorer: a page on this machine that shows a problem, its formulations and its solution, and moves them.

`state` is what the controls say, and the address of the page; `work` computes, at once or later; `page` and `views` are
what is shown; `app` is the page itself, its controls and the order of its panels; `serve` serves it to this machine
alone, to whoever has the token.

`__init__.pyi` lists the names, imported when they are asked for: `State` needs NumPy, and a browser opens before that.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
