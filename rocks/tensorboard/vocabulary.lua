-- vocabulary.lua - explains the parameters of torch.utils.tensorboard's functions, for `help` and
-- the manual. lua/tlua/repl/vocabulary.lua describes the format.
return [[
comment: is appended to the name of the folder
filename_suffix: is appended to the name of the file
flush_secs: the number of seconds between two writes to the file
hparams: the hyperparameters by name
max_queue: the number of events that may wait
sample_rate: the number of samples in a second
tag: the curve's name
values: the value of each curve
]]
