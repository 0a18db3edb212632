"""The command line: options, files in and out, progress, exit codes. Thin over the estimators."""
