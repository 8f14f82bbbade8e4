-- vocabulary.lua - describes the parameters of torch.notebook, for help and the manual. The format
-- is explained in lua/tlua/repl/vocabulary.lua.
return [[
allow_errors: whether to go on with the next cell after one has failed
display_name: the name that Jupyter shows
image: the image or images
name: the name of the kernel's folder
output: the path to write to, "" for none
path: the path of the notebook
prefix: the folder in which Jupyter is installed
quiet: whether nothing is printed for each cell
text: the text
value: the value to show
]]
