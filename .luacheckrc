std = "lua54"
max_line_length = 100
cache = false
exclude_files = {"build", "**/*.rockspec"}
self = false -- methods that do not use their object are fine

-- The operator table's files are read in an environment of their own.
files["src/ops"] = {read_globals = {"op", "example", "takes_complex", "takes_stored"}}
-- Annotations, not to be run; each is one line.
files["src/lua/types*.lua"] = {globals = {"torch", "Tensor"}, ignore = {"212"}, max_line_length = false}
-- Rows of examples are wider; fixtures are written by a program.
files["spec"] = {std = "+busted", max_line_length = 120}
files["rocks/*/spec"] = {std = "+busted", max_line_length = 120}
files["rocks/torch7/spec/speed.lua"] = {read_globals = {"torch", "nn", "optim"}}
files["rocks/*/spec/fixtures"] = {max_line_length = false}
files["spec/fixtures"] = {max_line_length = false}
-- Programs of ranks, which share their names with the code of specs.
files["spec/dist/programs"] = {allow_defined_top = true, read_globals = {"torch", "dist", "rank", "size", "check",
   "refused", "near", "COUNT", "ID", "PROGRAMS"}, globals = {"LIMIT"}, ignore = {"131"}}
-- Its comments stand beside the code, and one value is only there to show a declaration.
files["examples/tour.lua"] = {max_line_length = false, ignore = {"211"}}
files["examples/hosts/emulator/chase.lua"] = {read_globals = {"emu", "callbacks"}}
files["examples/hosts/dovecot/login.lua"] = {
   globals = {"script_init", "script_deinit", "auth_passdb_lookup"}, read_globals = {"dovecot"}}
files["examples/embed/script.lua"] = {globals = {"normalise"}}
-- Programs for `tlua --torch7`, which has these globals.
files["rocks/torch7/examples"] = {globals = {"torch", "nn", "optim", "image", "paths", "xlua"}}
