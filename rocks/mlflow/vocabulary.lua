-- vocabulary.lua - the meaning of parameters in torch.utils.mlflow, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
contents: the text
experiment_name: the name of the experiment
local_path: the file or folder to copy
run_name: the name of the run
status: the state in which the run ends
tags: the tags by name
]]
