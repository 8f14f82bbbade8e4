-- vocabulary.lua - explains the parameters of torch.utils.wandb's functions, for `help` and the
-- manual. lua/tlua/repl/vocabulary.lua describes the format.
return [[
aliases: the names of this version, such as "latest"
artifact_or_name: the artifact, or its name
artifact_or_path: the artifact, or the path of a file or a folder
caption: the text below the image
columns: the columns' names
commit: whether the row is complete
config: the settings by name
data: the values by name; a table's rows
data_or_path: the image, or its path
description: a text about the artifact
dir: the folder in which the folder wandb is made
entity: the team or user
exit_code: 0 for success
group: the group of runs
id: the run's id
interval: the least number of seconds between measurements of the system
job_type: the kind of run
local_path: the file or the folder
metadata: facts about the artifact by name
mode: "offline" or "disabled"
name: the run's name
notes: a text about the run
np_histogram: the counts and the edges
num_bins: the number of bins
project: the project's name
resume: whether an existing run with this id is continued
sequence: the numbers
tags: the tags
type: the kind of artifact
]]
