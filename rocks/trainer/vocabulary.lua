-- vocabulary.lua - explains the parameters of torch.trainer's functions, for `help` and the manual.
-- lua/tlua/repl/vocabulary.lua describes the format.
return [[
accelerator: the kind of device: "auto", "cpu", "cuda" (or "gpu") or "sim"
accumulate_grad_batches: the number of batches whose gradients make a step
annealing_epochs: the number of epochs in which the rate moves
annealing_strategy: how the rate moves: "cos" or "linear"
auto_wrap_policy: the modules whose parameters are gathered one at a time
attr_name: the field that has the learning rate
auto_insert_metric_name: whether the name stands before each value in a file's name
batch_size: the weight of the value in the mean; the size of the batch by default
benchmark: torch.backends.cudnn.benchmark
callbacks: callbacks, or a list of them
check_finite: whether NaN and infinity end the training
check_on_train_epoch_end: whether the value is checked at the end of an epoch's training
datamodule: the data module, instead of loaders
deterministic: whether only deterministic algorithms are used; "warn" warns of others
enable_progress_bar: whether a terminal shows a progress bar
every_n_epochs: the number of epochs from one checkpoint to the next
every_n_train_steps: the number of steps from one checkpoint to the next
experiment_name: the experiment's name
fast_dev_run: true or a number of batches: a short trial without logs and checkpoints
filename: the name, with values in braces
flush_logs_every_n_steps: the number of new rows after which the file is written
gradient_clip_algorithm: what is clipped: "norm" or "value"
group: the group of runs
gradient_clip_val: the highest norm, or value, of gradients
init_val: the first batch size
interval: when the schedule moves on: "step" or "epoch"
limit_predict_batches: the number or share of the batches that a prediction uses
limit_test_batches: the number or share of the batches that a test uses
limit_train_batches: the number or share of the batches that an epoch uses
limit_val_batches: the number or share of the batches that a validation uses
log_every_n_steps: the number of steps from one row in the logs to the next
log_momentum: whether momenta are logged, too
log_weight_decay: whether weight decays are logged, too
logger: whether loggers get the value
loss: a tensor of one element, or the function that computes it
max_lr: the highest learning rate
mp_policy: the dtypes in which sharded parameters are gathered and reduced
min_epochs: the least number of epochs before the training may be stopped
min_lr: the lowest learning rate
min_steps: the least number of steps before the training may be stopped
mode: whether the least ("min") or the greatest ("max") value is the best
module: the module
num_nodes: the number of machines
num_sanity_val_steps: the number of batches that are validated before the training; -1: all
offload_policy: keeps the shards in the memory of the CPU
optimizer: the optimizer
overfit_batches: the number or share of batches that all epochs and validations use
prog_bar: whether the progress bar shows the value
project: the project's name
reshard_after_forward: whether gathered parameters are freed after the forward pass
run_name: the run's name
save_last: whether the newest checkpoint is also kept as last.ckpt
save_on_train_epoch_end: whether checkpoints are saved at the end of an epoch's training
save_top_k: the number of checkpoints that are kept; -1: all
save_weights_only: whether only the weights are saved
schedule: a function that makes the optimizer's schedule
scheduler: the schedule of learning rates
steps_per_trial: the number of steps with each batch size
stopping_threshold: the value that ends the training
state_dict_type: "full": a checkpoint is one file; "sharded": a folder with each rank's parts
strategy: "auto", "ddp", "fsdp", an FSDPStrategy or a mesh
tags: the run's tags by name
trainer: the trainer
use_distributed_sampler: whether each rank gets its share of the data
verbose: whether messages are printed
]]
