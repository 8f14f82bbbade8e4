-- counters.lua - the indices of the counters that the threads of a model share with the server, and
-- the upper bounds, in seconds, of the buckets of the histogram of latencies.

return {
   answered = 1, failed = 2, examples = 3, runs = 4, queue_ns = 5, run_ns = 6, read_ns = 7,
   write_ns = 8, total_ns = 9, expired = 10, gone = 11, last_ms = 12, prompt_tokens = 13,
   new_tokens = 14, failed_ns = 15,
   first_bucket = 20,
   bounds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
}
