"""The density of a posterior: priors, recordings, a model's run, errors; and the parameters identifiable from recordings."""

import warnings

# ArviZ announces its next major version on standard error once a day; the lock file decides on it.
warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing a major refactor", category=FutureWarning)
