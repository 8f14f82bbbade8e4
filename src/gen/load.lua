-- load.lua - reads the operator table. Every src/ops/FAMILY/*.lua is a list of entries, which are
-- pure data. An entry may only have the fields that the table `fields` lists. Below an entry,
-- example(name, text) adds a short program to the manual. The expected output follows `--> ` in the
-- program, and a spec compares it. takes_complex(names) lists the entries of the file that take
-- complex tensors, and takes_stored(names) the entries that take the dtypes of TL_STORED_DTYPES
-- (tlua.h).

local schema = require "schema"

local M = {}

local fields = {
   -- text for users, with shapes, dtypes and errors; internal entries need no text
   doc = "string",
   -- The forward pass is an elementwise kernel: {types=, out=, kernel=, bool=, truncates=, check=,
   -- real=, rare=}. With `real`, complex inputs give a real result. With `rare`, the CPU has one
   -- loop for the kernel, which all instruction sets share.
   pointwise = "table",
   -- true: the operator takes complex tensors and dtypes. An operator without this field refuses
   -- them, unless it is an expression whose operators all take them
   complex = "boolean",
   -- true: the operator takes the dtypes of TL_STORED_DTYPES. Views take them without this field
   stored = "boolean",
   reduction = "table",     -- the forward pass is a kernel of the reduce family: {types=}
   scan = "table",          -- the forward pass is a kernel of the scan family: {types=}
   view = "boolean",        -- true: the result shares self's storage
   composite = "boolean",   -- true: the C code calls other operators, which record history
   expr = "string",         -- the operator is a composition, written as an expression
   -- whether there is an in-place form op_. true: it copies the result to self. "native": the C
   -- function itself works in place. "own": a second C function, tli_op_<name>_, works in place;
   -- that of a composition is tlo_<name>_, which calls operators that work in place
   inplace = "any",
   out = "boolean",         -- false: the operator has no out= form
   -- maps the name of an input to an expression for its gradient, or several names, as in "a, b",
   -- to one expression with several results
   grad = "table",
   materialize = "boolean", -- false: undefined gradients reach the derivative as nil, not as zeros
   -- the name in Lua, if it differs from the name in C; for an internal entry, the name in messages
   name = "string",
   -- PyTorch's name for the autograd node, if the name does not follow from the operator's name. If
   -- Lua calls a composition, the last node gets the name
   node = "string",
   module = "string",       -- the function is in torch.<module>, not in torch
   also = "boolean",        -- true: the function is in torch, too, not only in torch.<module>
   -- false: the function is not a method of tensors. By default it is a method if the first
   -- parameter is self
   method = "boolean",
   -- false: the operator is only a method, and torch has no function for it
   func = "boolean",
   -- true: the binding calls the C function, and programs can contain the operator even if it is
   -- internal. The C code of a composition is then named tli_op_<name>; the generated tlo_<name>
   -- calls this code and reports the call to profilers and tracers
   hooked = "boolean",
   creation = "boolean",    -- true: the operator takes the option requires_grad
   internal = "boolean",    -- C only
   -- true: the in-place form may write to a tensor whose elements share memory, because all
   -- elements become equal
   overlap = "boolean",
   alias = "table",         -- further names of the function in Lua
   metamethod = "string",   -- the metamethod, such as "add", that calls this function
   reversed = "string",     -- with metamethod: the node's name if the left operand is a number
   examples = "table",      -- argument lists for the gradient check and the fuzzer
   -- how torch.autocast casts tensors: to "lower" (autocast's dtype), to "float32", to "widest"
   -- (the widest dtype among the arguments), or "refused". A table {cpu =, gpu =} gives different
   -- policies for CPU and GPU, as PyTorch has for some operators; its field `when` is a C condition
   -- for the cast. "result" casts the result to autocast's dtype, for functions that end in a
   -- matrix product
   autocast = "any",
   -- set of tensor parameters that may be on a different device than the others
   any_device = "table",
   -- the formula for a call's number of FLOPs, see emit_profile.lua. Without a formula, a pointwise
   -- operator is counted as one FLOP for each element
   flops = "string",
   -- the reason why every call makes the host wait for the device, so that a graph cannot capture
   -- the call
   waits = "string",
   -- the library, such as "LAPACK", that computes on the CPU for tensors on any device. Inputs and
   -- results are copied, and a call waits for these copies
   host = "string",
   -- true (with `host`): the C code also runs on devices that provide LAPACK's routines
   device_lapack = "boolean",
   nondiff = "string",      -- the reason why a floating-point result has no derivative
   nograd = "table",        -- set of floating-point results that have no derivative
   -- options for the gradient check; false: the gradient is not checked, for the reason in
   -- `nondiff`
   gradcheck = "any",
}

local function fail(entry, why)
   error(("%s:%d: operator %s: %s"):format(entry.file, entry.line, entry.lua or "?", why), 0)
end

local function check_grad(op)
   for key in pairs(op.grad or {}) do
      for name in key:gmatch("[%w_]+") do
         if not op.params[name] then
            fail(op, "derivative of unknown parameter " .. name)
         end
      end
   end
end

local casts = {lower = true, float32 = true, widest = true, refused = true, result = true}

-- Returns the field `autocast` as a table. Fails if the field is invalid; entries of internal and
-- in-place functions must not have it.
local function read_autocast(op)
   local given = op.autocast
   if type(given) ~= "table" then given = {cpu = given, gpu = given} end
   for kind, cast in pairs(given) do
      if kind ~= "when" and (kind ~= "cpu" and kind ~= "gpu" or not casts[cast]) then
         fail(op, "unknown autocast " .. tostring(cast))
      end
   end
   if op.internal or op.inplace_form then
      fail(op, "has autocast, which is for functions that users call")
   end
   op.casts_result = given.cpu == "result"
   if op.casts_result and (given.gpu ~= "result" or given.when or op.results.kind ~= "tensor") then
      fail(op, "casts its result: expected one, always, on all devices")
   end
   op.autocast = given
end

local function check(op)
   for key, value in pairs(op.entry) do
      local want = fields[key]
      if key ~= 1 and (not want or (want ~= "any" and type(value) ~= want)) then
         fail(op, "unknown or ill-typed field " .. tostring(key))
      end
   end
   if not op.doc and not op.internal then
      fail(op, "has no doc")
   end
   if op.host and (op.composite or op.expr or op.pointwise or op.inplace or op.inplace_form) then
      fail(op, "has host, which is for C functions that return new tensors")
   end
   if op.also and not op.module then
      fail(op, "has also without module")
   end
   if op.grad and not op.examples and not op.internal then
      fail(op, "has a derivative but no examples to check it with")
   end
   check_grad(op)
end

local function enter(family, entry, line)
   local op = schema.parse(entry[1])
   for key, value in pairs(entry) do
      if type(key) == "string" then
         op[key] = value
      end
   end
   op.lua = entry.name or op.lua
   op.entry, op.family, op.file, op.line = entry, family.name, family.file, line
   local first = op.params[1]
   if op.method == nil then
      op.method = first ~= nil and first.name == "self"
   end
   op.inplace_form = op.results.kind == "self"
   if op.host then
      local unless = op.device_lapack and " unless cuSOLVER is there" or ""
      op.waits = op.waits or op.host .. " computes on the CPU" .. unless
   end
   check(op)
   if op.autocast then read_autocast(op) end
   return op
end

-- Returns the line of the entry's file at which the main chunk is executing. This is the line of
-- the entry, even if a function that the main chunk calls makes the entry.
local function line_in_file()
   local level, info = 2
   repeat
      level = level + 1
      info = debug.getinfo(level, "Sl")
   until info.what == "main"
   return info.currentline
end

local function last_named(ops, name)
   for i = #ops, 1, -1 do
      if ops[i].lua == name and not ops[i].internal then return ops[i] end
   end
end

local function load_family(path)
   local folder, name = path:match("([%w_]+)/([%w_]+)%.lua$")
   local family = {name = name, file = ("src/ops/%s/%s.lua"):format(folder, name), ops = {}}
   local env = setmetatable({}, {__index = _G})
   function env.op(entry)
      family.ops[#family.ops + 1] = enter(family, entry, line_in_file())
   end
   function env.example(called, text)
      local op = last_named(family.ops, called)
      if not op or op.example then
         error(("%s: example of %s: expected one below its entry"):format(family.file, called), 0)
      end
      op.example = text:gsub("^\n", ""):gsub("^   ", ""):gsub("\n   ", "\n"):gsub("%s+$", "")
   end
   local function mark(field, names)
      local left = {}
      for word in (names or ""):gmatch "%S+" do left[word] = true end
      for _, op in ipairs(family.ops) do
         local named = left[op.cname] or not op.internal and left[op.lua]
         if named or not names then op[field] = true end
      end
      for _, op in ipairs(family.ops) do left[op.cname], left[op.lua] = nil, nil end
      if next(left) then
         error(("%s: takes_%s: there is no entry %s"):format(family.file, field, next(left)), 0)
      end
   end
   -- Marks entries of this file as taking complex tensors. `names` has the names of these entries,
   -- separated by blanks; without it, all entries of the file are marked.
   function env.takes_complex(names) mark("complex", names) end
   -- Marks entries of this file as taking the dtypes of TL_STORED_DTYPES.
   function env.takes_stored(names) mark("stored", names) end
   assert(loadfile(path, "t", env))()
   return family
end

-- Checks that all overloads of a name are in one file, because the binding of that file chooses
-- among them.
local function check_forms(all)
   local homes = {}
   for _, op in ipairs(all.ops) do
      local key = ("%s%s.%s"):format(op.func == false and ":" or "", op.module or "torch", op.lua)
      local home = op.internal and op.file or homes[key] or op.file
      if home ~= op.file then
         fail(op, "has another form in " .. home)
      end
      if not op.internal then homes[key] = home end
   end
end

-- Marks an expression as waiting for the device if any operator in the expression waits.
local function inherit_waits(all, op)
   if op.waits or not op.expr then return end
   for name in op.expr:gmatch("([%w_]+)%(") do
      local called = all.byname[name]
      if called then
         inherit_waits(all, called)
         op.waits = op.waits or called.waits
      end
   end
end

-- Marks an expression as taking complex tensors if all operators in the expression do.
local function inherit_complex(all, op)
   if op.complex ~= nil or not op.expr then return end
   op.complex = true
   local text = op.expr:gsub("%^", " pow("):gsub("/", " true_divide("):gsub("%*", " mul(")
   for name in text:gmatch("([%w_]+)%(") do
      local called = all.byname[name]
      if called then
         inherit_complex(all, called)
         op.complex = op.complex and called.complex or false
      end
   end
end

-- Marks an operator, and all operators in its expression, as kept in the build.
local function keep(all, op)
   if not op.left_out then return end
   op.left_out = false
   for name in (op.expr or ""):gmatch("([%w_]+)%(") do
      if all.byname[name] then keep(all, all.byname[name]) end
   end
end

--- Marks all operators except those in `names` as left out, and leaves out the recording of
--- derivatives if `records` is not true.
---@param all table  the operators that load() has returned
---@param names string  separated by blanks: names in Lua, aliases, or names in C
function M.keep_only(all, names, records)
   local forms = {}
   for _, op in ipairs(all.ops) do
      op.left_out = true
      for _, name in ipairs {op.cname, op.lua, table.unpack(op.alias or {})} do
         forms[name] = forms[name] or {}
         table.insert(forms[name], op)
      end
   end
   for name in names:gmatch("%S+") do
      if not forms[name] then error("OPS: there is no operator " .. name, 0) end
      for _, op in ipairs(forms[name]) do keep(all, op) end
   end
   all.inference, all.records = true, records
end

--- Loads all families.
---@param paths string[]
---@return table  {families = {...}, ops = {...}, byname = {cname = op}}
function M.load(paths)
   local all = {families = {}, ops = {}, byname = {}}
   for _, path in ipairs(paths) do
      local family = load_family(path)
      all.families[#all.families + 1] = family
      for _, op in ipairs(family.ops) do
         if all.byname[op.cname] then
            fail(op, "is declared twice")
         end
         all.byname[op.cname] = op
         all.ops[#all.ops + 1] = op
      end
   end
   check_forms(all)
   for _, op in ipairs(all.ops) do
      inherit_waits(all, op)
      inherit_complex(all, op)
   end
   return all
end

return M
