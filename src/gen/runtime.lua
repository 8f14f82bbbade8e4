-- runtime.lua - finds the parts of the library that programs of torch.export need, for
-- `make runtime PROGRAM=model.tlp`: `lua src/gen/runtime.lua WHAT MODEL.tlp...` prints
--   ops       the operators that the programs call, directly or through other operators' C code
--   families  the kernel families of these operators
--   header    a header that replaces all unused kernels in the CPU's table
--   sources   the C code of these operators and families, to be searched for names of kernels
--   mode      "train" if one of the programs is a training step, otherwise "infer"
--
-- The C sources must be formatted: a function begins at an unindented line that ends with "{", and
-- ends at an unindented "}". If a word in a function is the name of another function, it counts as
-- a call, so the result may be larger than necessary.

local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here .. "/?.lua;" .. package.path

local load = require "load"

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read("a")
end

local function paths(pattern)
   local list, out = assert(io.popen("ls " .. pattern)), {}
   for path in list:lines() do out[#out + 1] = path end
   list:close()
   return out
end

-- Programs ----------------------------------------------------------------------------------------

local function fail(path, what)
   io.stderr:write(("runtime: %s: expected %s\n"):format(path, what))
   os.exit(1)
end

-- Appends the names of the operators that a program calls to `names`. Sets names.train if the
-- program is a training step.
local function add_operators(names, seen, path)
   local file <close> = io.open(path, "rb") or fail(path, "a readable file")
   local size = string.unpack("<I8", file:read(8) or fail(path, "a file of torch.export"))
   if size < 0 or size > 100000000 then fail(path, "a file of torch.export") end
   local header = file:read(size) or ""
   local program = header:match '"program":"(.-[^\\])"[,}]'
   if not program then fail(path, "a file of torch.export") end
   program = program:gsub('\\(["\\])', "%1")
   local calls = program:match '"calls":%[(.*)%],"outputs":' or fail(path, "a program with calls")
   for name in ("," .. calls):gmatch ',%["([%w_]+)",%[' do
      if name:find "^autograd_" then
         names.train = true
      elseif not seen[name] then
         names[#names + 1] = name
      end
      seen[name] = true
   end
end

-- Sources -----------------------------------------------------------------------------------------

-- The key for a file's code outside of any recognized function, macro or table. This code counts as
-- used if any name of the file is used.
local REST <const> = "@rest"

-- Returns the functions, macros and tables of a C file as name -> text. Definitions with the same
-- name are concatenated.
local function functions_of(text)
   local found = {}
   local function add(name, part)
      name = name or REST
      found[name] = (found[name] or "") .. "\n" .. part
   end
   text = text:gsub("/%*.-%*/", " "):gsub('"[^"\n]*"', '""'):gsub("\\\n", " ")
   local name, lines, before = nil, nil, ""
   for line in text:gmatch "[^\n]*" do
      if lines then
         lines[#lines + 1] = line
         if line:find "^}" then
            add(name, table.concat(lines, "\n"))
            lines = nil
         end
      elseif line:find "^#define" then
         add(line:match "^#define%s+([%a_][%w_]*)", line)
      else
         -- joins the lines of a signature or a table that extends over several lines
         before = line:find "^[%a_]" and line or before .. " " .. line
         local one_line = before:match "([%a_][%w_]*)%s*%b()%s*%b{}%s*$"
         local of_table = before:match "([%a_][%w_]*)%s*%b[]%s*="
            or before:match "([%a_][%w_]*)%s*="
         if one_line then
            add(one_line, before)
            before = ""
         elseif line:find "{%s*$" then
            name = before:match "([%a_][%w_]*)%s*%b()%s*{%s*$" or of_table
            lines = {before}
            before = ""
         elseif line:find ";%s*$" then
            if before:find "=" then add(of_table, before) end
            before = ""
         end
      end
   end
   return found
end

local function each_word(text, fn)
   for word in text:gmatch "[%a_][%w_]*" do fn(word) end
end

-- Operators ---------------------------------------------------------------------------------------

local all = load.load(paths(here .. "/../ops/*/*.lua"))
-- `files` maps each file to its functions. `home` maps each name that other files can use to the
-- files that define it
local files, home = {}, {}
for _, path in ipairs(paths(here .. "/../ops/*.[ch] " .. here .. "/../ops/*/*.[ch]")) do
   local file = path:match "ops/(.*)$"
   files[file] = functions_of(read(path))
   for name in pairs(files[file]) do
      if name:find "^tl[io]_" or file:find "%.h$" then
         home[name] = home[name] or {}
         table.insert(home[name], file)
      end
   end
end

-- Returns the operator to which a C name belongs: tlo_add, tlo_add_ and tli_op_add all belong to
-- add.
local function operator_named(word)
   local name = word:match "^tlo_(.+)$" or word:match "^tli_op_(.+)$"
   return name and (all.byname[name] or all.byname[name:gsub("_$", "")])
end

-- Returns the names of functions in a macro's text that may define the operator `name`. For
-- example, tlo_max_pool##n##d may define max_pool2d.
local function definitions(text, name)
   local list = {}
   local marked = text:gsub("(%f[%w_]tlo_[%w_]*##)", "\0%1")
   marked = marked:gsub("(%f[%w_]tli_op_[%w_]*##)", "\0%1")
   for part in marked:gmatch "%z([^%z]*)" do
      local beginning, rest = part:match "^tl[oi]_([%w_]*)##%w+##([%w_]*)"
      beginning = beginning and beginning:gsub("^op_", "")
      if not beginning then list[#list + 1] = part
      elseif name:sub(1, #beginning) == beginning and name:sub(-#rest) == rest then
         list[#list + 1] = part
      end
   end
   return table.concat(list, "\n")
end

--- Returns the operators (by C name) and the kernels that the given operators reach.
local function reach(names)
   local ops, kernels, seen, texts = {}, {}, {}, {}
   local visit, visit_text

   local function visit_op(op)
      if ops[op.cname] then return end
      ops[op.cname] = true
      for _, form in ipairs {"tlo_%s", "tlo_%s_", "tli_op_%s"} do visit(form:format(op.cname)) end
      -- the operator's generated functions call the following C functions
      if op.pointwise then visit "tli_pointwise" end
      if op.pointwise and (op.inplace or op.inplace_form) then visit "tli_pointwise_into" end
      if op.inplace then visit "tlo_copy_" end
      if op.reduction then visit "tli_reduce" end
      if op.scan then visit "tli_scan" end
      -- the operator's functions may be defined by a macro
      local file = op.file:match "ops/(.*)%.lua$" .. ".c"
      if not home["tlo_" .. op.cname] and not home["tli_op_" .. op.cname] and files[file] then
         for _, text in pairs(files[file]) do
            if text:find "##" then visit_text(definitions(text, op.cname), file) end
         end
      end
      -- an entry's strings contain names of C functions, for example for sizes and checks, and the
      -- string `expr` contains names of operators
      for key, value in pairs(op) do
         if type(value) == "string" and key ~= "doc" and key ~= "grad" then
            each_word(value, function(word) visit(word, file) end)
         end
      end
      for word in (op.expr or ""):gmatch "([%w_]+)%(" do
         if all.byname[word] then visit_op(all.byname[word]) end
      end
   end

   local function note_kernels(text)
      texts[#texts + 1] = text
      for kernel in text:gmatch "TLI_RUN%(.-,%s*([%w_]+)," do kernels[kernel] = true end
      for kernel in text:gmatch "TLI_RUN(%b())" do
         for word in kernel:gmatch "[%w_]+" do kernels[word] = true end
      end
      for kernel in text:gmatch "struct tlk_([%w_]+)" do kernels[kernel] = true end
      for kernel in text:gmatch "%->([%w_]+)%s*%(" do kernels[kernel] = true end
   end

   function visit_text(text, file)
      if file and files[file] and files[file][REST] and not seen[file .. ":" .. REST] then
         seen[file .. ":" .. REST] = true
         visit_text(files[file][REST], file)
      end
      note_kernels(text)
      each_word(text, function(word) visit(word, file) end)
   end

   -- Visits a name that occurs in the file `from`: adds the operator, kernel or function of this
   -- name, and visits the names that occur in it.
   function visit(word, from)
      local own = from and files[from] and files[from][word]
      local key = own and from .. ":" .. word or word
      if seen[key] then return end
      seen[key] = true
      local op = operator_named(word)
      if op then visit_op(op) end
      if own then return visit_text(own, from) end
      for _, file in ipairs(home[word] or {}) do
         if not seen[file .. ":" .. word] then
            seen[file .. ":" .. word] = true
            visit_text(files[file][word], file)
         end
      end
   end

   for _, name in ipairs(names) do
      local op = all.byname[name] or all.byname[name:gsub("_$", "")]
      if op then visit_op(op) end
   end
   -- These files of src/graph read, run and save every program, so the functions that they call are
   -- always needed.
   for _, path in ipairs {"run", "branches", "file_read", "file_write"} do
      each_word(read(("%s/../graph/%s.c"):format(here, path)), visit)
   end
   for _, path in ipairs(paths(here .. "/../core/*/*.c")) do note_kernels(read(path)) end
   if names.train then
      -- adds the derivatives of the operators reached so far. The operators that these derivatives
      -- call get no derivatives, because a training step needs no second derivatives
      local recorded = {}
      for name in pairs(ops) do recorded[#recorded + 1] = all.byname[name] end
      for _, op in ipairs(recorded) do
         for _, rule in pairs(op.grad or {}) do
            for word in rule:gmatch "[%a_][%w_]*" do
               if all.byname[word] then visit_op(all.byname[word]) end
               visit("tli_" .. word)
            end
         end
      end
      for _, path in ipairs(paths(here .. "/../autograd/*.c")) do
         note_kernels(read(path))
         each_word(read(path), visit)
      end
   end
   return ops, kernels, table.concat(texts, "\n")
end

-- Kernels -----------------------------------------------------------------------------------------

--- Returns the kernel families that contain these kernels, and the families whose headers these
--- families include.
local function families_of(ops, kernels)
   local cpu = here .. "/../../kernels/cpu"
   local texts, found, order = {}, {}, {}
   for _, path in ipairs(paths(("%s/*/*.[ch] %s/*/isa/*.c"):format(cpu, cpu))) do
      local family = path:match "kernels/cpu/([%w_]+)/"
      texts[family] = (texts[family] or "") .. read(path)
   end
   local function add(family)
      if found[family] or not texts[family] then return end
      found[family] = true
      order[#order + 1] = family
      for other in texts[family]:gmatch '#include "kernels/cpu/([%w_]+)/' do add(other) end
   end
   for kernel in pairs(kernels) do
      for family, text in pairs(texts) do
         if text:find("bool tlk_" .. kernel .. "(", 1, true) then add(family) end
      end
   end
   for name in pairs(ops) do
      local op = all.byname[name]
      if op.pointwise then add "pointwise" end
      if op.reduction then add "reduce" end
      if op.scan then add "scan" end
   end
   add "copy"
   add "creation"
   return order, texts
end

-- Returns the header. It defines TLK_KEPT_softmax as tlk_softmax or, if softmax is left out, as a
-- function that fails.
local function header_of(kernels)
   local list = read(here .. "/../core/kernel/kernel.h"):match "#define TLK_KERNELS%(X%)(.-)\n\n"
   local lines = {"/* Generated by src/gen/runtime.lua; not to be edited. */"}
   for name in list:gmatch "X%(([%w_]+)" do
      lines[#lines + 1] = ("#define TLK_KEPT_%s %s%s"):format(name,
         kernels[name] and "tlk_" or "tlk_left_out_", name)
      lines[#lines + 1] = ("#define TLK_KEEPS_%s %d"):format(name, kernels[name] and 1 or 0)
   end
   return table.concat(lines, "\n")
end

local function main(what, ...)
   local names, seen = {}, {}
   for _, path in ipairs {...} do add_operators(names, seen, path) end
   if #names == 0 then
      error "usage: lua src/gen/runtime.lua ops|families|header|sources|mode MODEL.tlp..."
   end
   local ops, kernels, text = reach(names)
   if what == "mode" then return print(names.train and "train" or "infer") end
   if what == "header" then return print(header_of(kernels)) end
   local families, texts = families_of(ops, kernels)
   if what == "sources" then
      print(text)
      for _, family in ipairs(families) do print(texts[family]) end
      return
   end
   local list = {}
   if what == "ops" then
      for name in pairs(ops) do list[#list + 1] = name end
   elseif what == "families" then
      list = families
   else
      error "runtime: expected ops, families, header, sources or mode"
   end
   table.sort(list)
   print(table.concat(list, " "))
end

main(table.unpack(arg))
