"""What runs behind the API: the pipeline of this process, its workers and its queues."""
