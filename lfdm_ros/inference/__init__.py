"""The density of a posterior: priors, recordings, a model's run, errors; and which of its parameters recordings can teach."""

import warnings

# Once a day ArviZ announces its next major version on standard error; the lock file decides about that.
warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing a major refactor", category=FutureWarning)
