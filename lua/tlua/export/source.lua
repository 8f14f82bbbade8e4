-- source.lua - the command `tlua build model.tlp -o model.c`: writes a program of torch.export as
-- C, for targets without files. The C file has the program's bytes as a constant array, which
-- tl_program_read of tlua.h uses in place.

local torch = require "tlua"

local M = {}

local usage <const> = [[
usage: tlua build MODEL.tlp [-o MODEL.c] [--name NAME]
Writes a program of torch.export or torch.export_step as a C file; without -o, to
the standard output. The file defines one function:
   tl_Program *NAME_load(void);   a constructor, like tl_program_load of tlua.h
NAME is the file's name by default. The program uses its weights where they are,
in read-only memory; tensors that a run changes are copied. Link the file with
libtlua.a, or with the library that `make runtime PROGRAM=MODEL.tlp` makes.
]]

-- Bytes in a line of the C file.
local WIDTH <const> = 20

-- Returns the text of the C file. `listing` is the readable text of the program, which becomes a
-- comment.
local function source_of(bytes, name, path, listing)
   local lines = {}
   for i = 1, #bytes, WIDTH do
      lines[#lines + 1] = table.concat({bytes:byte(i, math.min(i + WIDTH - 1, #bytes))}, ",") .. ","
   end
   local text = [[
/* %s, written by `tlua build`. The program:
%s
*/
#include <tlua.h>

static const _Alignas(64) unsigned char bytes[%d] = {
%s
};

tl_Program *%s_load(void);
tl_Program *%s_load(void) { return tl_program_read(bytes, sizeof bytes); }
]]
   local function in_comment(part) return (part:gsub("%*/", "* /"):gsub("/%*", "/ *")) end
   return text:format(in_comment(path:match "[^/\\]*$"), in_comment(listing), #bytes,
      table.concat(lines, "\n"), name, name)
end

-- Returns the options of the command, from its words.
local function options_of(words)
   local options, i = {}, 1
   while i <= #words do
      local word = words[i]
      if word == "--help" or word == "-h" then return nil, true end
      local field = ({["-o"] = "out", ["--name"] = "name"})[word]
      if field then
         i = i + 1
         if not words[i] then return nil, false, word .. " needs a value" end
         options[field] = words[i]
      elseif word:sub(1, 1) == "-" then
         return nil, false, "unknown option " .. word
      elseif options.path then
         return nil, false, ("expected one program, got %s and %s"):format(options.path, word)
      else
         options.path = word
      end
      i = i + 1
   end
   if not options.path then return nil, false, "expected a program, got no file" end
   if options.out == options.path then
      return nil, false, "-o: expected another file than the program"
   end
   options.name = options.name or options.path:match "([^/\\]*)$":gsub("%.[^.]*$", "")
      :gsub("[^%w_]", "_"):gsub("^%d", "_%0")
   if not options.name:find "^[%a_][%w_]*$" then
      return nil, false, "--name: expected a name in C, got " .. options.name
   end
   return options
end

local function write(path, text)
   if not path then
      io.stdout:write(text)
      io.stdout:flush()
      return nil
   end
   local failure = require "tlua.io.replace"(path, function(file)
      return select(2, file:write(text))
   end)
   return failure and path .. ": " .. failure
end

--- Runs the command `tlua build`; returns whether it succeeded.
---@param words string[]  the words after `tlua build`
---@return boolean succeeded
function M.command(words)
   local options, help, problem = options_of(words)
   if help then
      io.stdout:write(usage)
      return true
   elseif not options then
      io.stderr:write("tlua build: ", problem, "\n", usage)
      return false
   end
   local fine, program = pcall(torch.export.load, options.path) -- loading checks the whole file
   local file = fine and io.open(options.path, "rb")
   problem = not fine and tostring(program):gsub("^.-: ", "", 1)
      or not file and options.path .. ": it cannot be read"
   if not problem then
      local bytes = file:read "a"
      file:close()
      problem = write(options.out, source_of(bytes, options.name, options.path, tostring(program)))
   end
   if problem then io.stderr:write("tlua build: ", problem, "\n") end
   return not problem
end

return M
