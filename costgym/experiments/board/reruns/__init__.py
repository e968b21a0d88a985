"""Running a submission's agents again, on seeds that nobody knew, in processes of their own."""
