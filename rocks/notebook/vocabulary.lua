-- vocabulary.lua - the meaning of parameters in torch.notebook, for help and the manual; see
-- lua/tlua/repl/vocabulary.lua.
return [[
allow_errors: whether the cells after one that has failed are run
display_name: the name that Jupyter shows
image: the image or images
name: the name of the kernel's folder
output: the path to write to, "" for none
path: the path of the notebook
prefix: the folder that Jupyter is installed in
quiet: whether nothing is printed for each cell
text: the text
value: the value to show
]]
