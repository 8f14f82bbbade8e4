-- vocabulary.lua - explains the parameters of torch.utils.mlflow's functions, for `help` and the
-- manual. lua/tlua/repl/vocabulary.lua describes the format.
return [[
contents: the text
experiment_name: the name of the experiment
local_path: the file to copy
run_name: the name of the run
status: the state in which the run ends
tags: the tags by name
]]
