std = "lua54"
max_line_length = 100
cache = false
exclude_files = {"build", "**/*.rockspec"}
self = false -- methods that do not use their object are fine

-- The operator table's files are read in an environment of their own; a signature, like a
-- sentence of the manual, is one line.
files["src/ops"] = {read_globals = {"op"}, max_line_length = false}
-- Annotations, not to be run.
files["src/lua/types.lua"] = {globals = {"torch", "Tensor"}, ignore = {"212"}, max_line_length = false}
files["spec"] = {std = "+busted", max_line_length = false}
-- Copied as it is from the project's plan.
files["examples/tour.lua"] = {max_line_length = false, ignore = {"211"}}
files["examples/embed/script.lua"] = {globals = {"normalise"}}
