-- record.lua - records a watched call (watch.lua) as a program, for torch.compile, and checks that
-- the program gives the same results as the call.

local torch = require "tlua"
local json = require "tlua.utils.json"
local trace = require "tlua.export.trace"
local arguments = require "tlua.compile.arguments"
local compare = require "tlua.compile.compare"
local strided = require "tlua.export.strided"
local training = require "tlua.compile.training"
local keep_random = require "tlua.export.random"
local watch = require "tlua.compile.watch"

local M = {}

local function fail(why) error({why = why}, 0) end

-- Returns a list with {name, tensor, whether the call writes to the tensor} for each tensor of a
-- state. The names are unique.
local function named_tensors(state, fn, written)
   local list, taken, seen, writes = {}, {}, {}, {}
   for _, tensor in ipairs(written or {}) do writes[tensor] = true end
   local function add(name, tensor)
      if seen[tensor] or taken[name] then return end
      seen[tensor], taken[name] = true, true
      list[#list + 1] = {name, tensor, writes[tensor] or false}
   end
   if type(fn) == "table" and type(fn.named_parameters) == "function" then
      for name, tensor in fn:named_parameters() do add(name, tensor) end
      for name, tensor in fn:named_buffers() do add(name, tensor) end
   end
   for _, pair in ipairs(state.list) do add((pair[1]:gsub("^%.", "")), pair[2]) end
   return list
end

-- Raises an error unless a recorded call has called the same functions as the watched call.
local function check_functions(seen, watched)
   if seen.refusal then fail(seen.refusal) end
   if not watch.same_functions(seen, watched) then
      fail "another function is called while the call is recorded"
   end
end

-- Returns the set of the storages of tensors. `list` has the tensors themselves or, if `field` is
-- given, tables with the tensor at the index `field`.
local function storages(list, field)
   local keys = {}
   for _, item in ipairs(list) do keys[torch._storage_key(field and item[field] or item)] = true end
   return keys
end

local function check_results(results, given, state)
   if #results == 0 then fail "the function returns no tensor" end
   local inputs, kept = storages(given), storages(state.list, 2)
   for _, tensor in ipairs(results) do
      local key = torch._storage_key(tensor)
      if inputs[key] then fail "a result shares the memory of an argument" end
      if kept[key] then fail "a result shares the memory of a parameter or another tensor" end
   end
end

-- Returns whether the program depends on the present values of the state's tensors, so that it is
-- wrong after they have changed. This is so if one of its constants is a copy, or if the function
-- has read a tensor's values.
local function is_fixed(handle, state)
   if handle:reads() then return true end
   local kept = storages(state.list, 2)
   for _, pair in ipairs(handle:constants()) do
      if not kept[torch._storage_key(pair[2])] then return true end
   end
   return false
end

-- Returns whether a program has branches or loops (recorded calls whose names begin with cond_ or
-- loop_).
local function has_marks(handle)
   for _, recorded in ipairs(handle:calls().calls) do
      if recorded.name:find "^cond_" or recorded.name:find "^loop_" then return true end
   end
   return false
end

local function names_of(positions)
   local names = {}
   for i, position in ipairs(positions) do names[i] = ("input_%d"):format(position) end
   return names
end

-- Returns whether two lists of leaves have the same values. Tensors are not compared.
local function same_leaves(a, b)
   for i = 1, math.max(a.n, b.n) do
      local same = rawequal(a[i], b[i]) and math.type(a[i]) == math.type(b[i])
      if not same and (a[i] == a[i] or b[i] == b[i]) then return false end
   end
   return true
end

-- Makes the batch size dynamic: the first size of each argument whose first size is `batch` becomes
-- a symbol of the graph. Two more calls, with other batch sizes, show which integers of the graph
-- depend on the symbol.
local function make_dynamic(graph, recorded, tensors, batch, lines)
   local symbol, is_line = {name = "batch"}, {}
   for _, item in ipairs(lines) do is_line[item[1]] = true end
   for i, tensor in ipairs(tensors) do
      if not is_line[i] and tensor:dim() > 0 and tensor:is_contiguous()
         and tensor:size(1) == batch then
         symbol[#symbol + 1] = {input = i, dim = 1}
         graph:dynamic(i, 1, symbol.name)
      end
   end
   local function at(size) return trace.record(recorded, trace.with_size(tensors, symbol, size)) end
   graph:fit(1, batch + 1, at(batch + 1), batch + 3, at(batch + 3))
   graph:range(1, 2, 1 << 40, true)
end

-- Returns copies of the arguments of a call, in separate memory.
local function copies_of(tensors, live)
   local copies = {}
   for i, tensor in ipairs(tensors) do
      copies[i] = strided.copy(tensor)
      if live and tensor.requires_grad then copies[i]:requires_grad_() end
   end
   return copies
end

--- Records a call whose batch size is not the one that the entry's program was recorded with.
--- Returns whether the program is right for this call as well.
function M.fits(entry, tensors, batch)
   local restore = training.put_copies(entry.written or {})
   local restore_random <const> = keep_random()
   local fine, why = pcall(function()
      local given = copies_of(strided.lines(entry.strided, tensors), entry.recorded.live)
      local other = trace.record(entry.recorded, given)
      entry.handle:fits_all({batch}, other)
   end)
   restore()
   restore_random()
   return fine, why
end

--- Records a call. `call` has the fields fn, template, leaves, state, watch (of the second watched
--- call), results (packed) and restore_random (for the state before that call). Returns an entry:
--- the program `handle`, the results' `template`, `leaves` and `places`, and more. Raises
--- {why = text} if the call cannot be recorded.
function M.record(call)
   local tensors, positions = arguments.tensors(call.leaves)
   -- Inputs that are not row-major are replaced by one-dimensional views of their memory, called
   -- lines (strided.lua). Calls that record gradients and calls of a backend use the caller's own
   -- tensors instead.
   local found = strided.find((call.live or call.backend) and {} or tensors)
   local result_template, result_leaves, result_places, first_leaves
   local function model(...)
      local given = strided.views(found, {...})
      local leaves = arguments.with_tensors(call.leaves, positions, given)
      local values = arguments.unflatten(call.template, leaves)
      local results = table.pack(watch.call(call.fn, table.unpack(values, 1, values.n)))
      check_functions(results[1], call.watch)
      local packed = {n = results.n - 1, table.unpack(results, 2, results.n)}
      result_template, result_leaves = arguments.flatten(packed)
      if not result_template then fail "a result is neither a tensor nor plain data" end
      local list
      list, result_places = arguments.results(result_leaves)
      for _, place in ipairs(result_places) do result_leaves[place[1]] = false end
      if #list == 0 then fail "the function returns no tensor" end
      first_leaves = first_leaves or result_leaves
      if not same_leaves(first_leaves, result_leaves) then
         fail "a result that is not a tensor differs when the call is recorded"
      end
      return table.unpack(list)
   end
   local inputs = json.as_array {}
   for i = 1, #tensors do inputs[i] = json.as_array {i, 0} end
   local recorded = {
      title = "compile", model = model, names = names_of(positions), inputs = inputs,
      named = named_tensors(call.state, call.fn, call.written), training = false, live = call.live,
   }
   local copies = copies_of(strided.lines(found, tensors), call.live)
   local handle = trace.record(recorded, copies)
   handle:same(trace.record_other_values(recorded, copies))
   local sizes
   if call.batch then
      local fine, why = pcall(make_dynamic, handle, recorded, copies, call.batch, found)
      if not fine then fail("dynamic: " .. tostring(type(why) == "table" and why.why or why)) end
      sizes = {[call.batch] = true, [call.batch + 1] = true, [call.batch + 3] = true}
   end
   handle = handle:ready()
   -- Compares the results of the recorded call with the results of the watched call.
   local given_template, given_leaves, tables = arguments.flatten(call.results)
   for value in next, tables or {} do
      if call.state.seen[value] or call.tables[value] then
         fail "a result is a table that exists before the call"
      end
   end
   if not given_template or arguments.text(given_template) ~= arguments.text(result_template) then
      fail "the results have another structure when the call is recorded"
   end
   local expected, places = arguments.results(given_leaves)
   for i, place in ipairs(places) do
      if not result_places[i] or place[2] ~= result_places[i][2] then
         fail "the results have another structure when the call is recorded"
      end
   end
   check_results(expected, tensors, call.state)
   for i = 1, given_leaves.n do
      local value = given_leaves[i]
      if torch.is_tensor(value) then value = false end
      if type(value) ~= "number" and type(value) ~= "string" and type(value) ~= "boolean"
         and value ~= nil then
         fail "a result is neither a tensor nor plain data"
      end
      if not rawequal(value, result_leaves[i]) and value == value then
         fail "a result that is not a tensor differs when the call is recorded"
      end
   end
   local function run(program)
      call.restore_random()
      return program:run(strided.lines(found, tensors))
   end
   local got = run(handle)
   local why = compare.difference(got, expected, not call.on_cpu and 1e-3 or nil)
   if why then fail(why .. " than the function's") end
   if call.live then
      why = training.difference(got, expected)
      if why then fail(why) end
   end
   local entry = {
      handle = handle, template = result_template, leaves = result_leaves,
      places = result_places, strided = found, fixed = is_fixed(handle, call.state),
      plain = #expected == result_leaves.n and result_template.n == result_leaves.n,
      example = copies, sizes = sizes, recorded = sizes and recorded,
   }
   -- The entry keeps the call for later checks, but without the call's tensors, so that they can be
   -- freed.
   if sizes then
      call.results = nil
      for _, position in ipairs(positions) do call.leaves[position] = false end
   end
   if call.live then
      if entry.fixed then fail "the call uses a tensor that it makes from data of Lua" end
      if not call.on_cpu then fail "gradients are recorded on another device than the CPU" end
      if has_marks(handle) then fail "gradients are recorded through torch.cond or while_loop" end
      return entry
   end
   if sizes then return entry end
   M.optimize(entry, call.state, expected, run)
   return entry
end

-- Returns a userdata that stores the tensors of a state and their current versions, which count the
-- changes in place. torch._note_holds tells whether they are still the same.
local function versions_of(state)
   local list = {n = 0}
   for _, pair in ipairs(state.list) do
      local tensor = pair[2]
      for i, item in ipairs {tensor, tensor:detach(), tensor.requires_grad, tensor._version} do
         list[list.n + i] = item
      end
      list.n = list.n + 4
   end
   return torch._note(nil, {n = 0}, {n = 0}, list)
end

--- Optimizes the program of an entry for the current values of the tensors. `expected` lists the
--- results before optimization; `run` runs a program for the same inputs.
function M.optimize(entry, state, expected, run)
   local better, uses
   better, uses, entry.problem = compare.optimize(entry.handle, entry.example, expected, run)
   entry.better = better
   entry.versions = better and uses and versions_of(state) or nil
end

--- Optimizes an entry's program again after the values of the tensors have changed.
function M.update(entry)
   local restore_random = keep_random()
   local function run(program)
      restore_random()
      return program:run(entry.example)
   end
   M.optimize(entry, entry.state, run(entry.handle), run)
   restore_random()
end

return M
