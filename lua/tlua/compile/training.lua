-- training.lua - calls that record gradients, for torch.compile: finds the buffers that a call
-- changes, and compares the graphs that compute the gradients of a program's results and of the
-- function's results.

local torch = require "tlua"
local keep_random = require "tlua.export.random"

local M = {}

--- Returns whether one of the leaves of the arguments requires a gradient.
function M.takes_gradient(leaves)
   for i = 1, leaves.n do
      if torch.is_tensor(leaves[i]) and leaves[i].requires_grad then return true end
   end
   return false
end

--- Reads the versions of a state's tensors, which count the changes in place. Returns a function
--- that returns the list of the tensors that have been changed since then.
function M.versions(state)
   local before = {}
   for i, pair in ipairs(state.list) do before[i] = pair[2]._version end
   return function()
      local list = {}
      for i, pair in ipairs(state.list) do
         if pair[2]._version ~= before[i] then list[#list + 1] = pair[2] end
      end
      return list
   end
end

--- Gives tensors, such as the running statistics of a batch norm, memory with copies of their
--- elements, so that a trial call may change them. Returns a function that restores the tensors'
--- own memory.
function M.put_copies(tensors)
   local own = {}
   for i, tensor in ipairs(tensors) do
      own[i] = tensor:detach()
      tensor.data = own[i]:clone()
   end
   return function()
      for i, tensor in ipairs(tensors) do tensor.data = own[i] end
   end
end

-- Returns the node of the graph that computed a tensor, and the tensor's position among the node's
-- results.
local function edge_of(tensor) return tensor.grad_fn, tensor.output_nr end

-- Compares two graphs of gradients, which begin at two lists of nodes. Returns whether the graphs
-- are equal. Nodes that both graphs share, such as those of the arguments' own graphs, are not
-- followed further.
local function same_graphs(stack)
   local partner = {}
   while #stack > 0 do
      local b, a = table.remove(stack), table.remove(stack)
      local one, other = partner[a.sequence], b.sequence
      if one ~= nil and one ~= other then return false end
      if one == nil and a.sequence ~= b.sequence then
         partner[a.sequence] = b.sequence
         local from, to = a.next_functions, b.next_functions
         if a.name ~= b.name or #from ~= #to then return false end
         for i, edge in ipairs(from) do
            local p, q = edge[1], to[i][1]
            local leaf = torch.is_tensor(p)
            if edge[2] ~= to[i][2] or leaf ~= torch.is_tensor(q) then return false end
            if leaf then
               if not torch._same_tensor(p, q) then return false end
            elseif (p == nil) ~= (q == nil) then
               return false
            elseif p ~= nil then
               stack[#stack + 1], stack[#stack + 2] = p, q
            end
         end
      end
   end
   return true
end

--- Returns how the gradients of a program's results differ from those of the function's results.
--- Returns nil if they do not differ.
function M.difference(got, expected)
   local stack = {}
   for i, tensor in ipairs(expected) do
      local other = got[i]
      if tensor.requires_grad ~= other.requires_grad then
         return "a result of the program records its gradient in another way"
      end
      local a, at = edge_of(tensor)
      local b, place = edge_of(other)
      if (a == nil) ~= (b == nil) or at ~= place then
         return "a result of the program has another gradient"
      end
      if a then stack[#stack + 1], stack[#stack + 2] = a, b end
   end
   if not same_graphs(stack) then return "the program records other derivatives" end
   return nil
end

-- Calls fn up to 20 times, and returns the time of the fastest call in seconds.
local function time(fn, limit)
   local best, begun = math.huge, os.clock()
   for _ = 1, 20 do
      local start = os.clock()
      fn()
      best = math.min(best, os.clock() - start)
      if os.clock() - begun > limit then break end
   end
   return best
end

--- Returns whether a program, including the checks before it, is at most 2 % slower than the
--- function. Both are timed in the forward pass, with gradients recorded. The backward pass is the
--- same for both.
function M.is_faster(calls, _, entry, values)
   local restore_random, restore = keep_random(), M.put_copies(entry.written)
   local repeats = 1
   local arguments = require "tlua.compile.arguments"
   local _, leaves = arguments.flatten(values)
   local tensors = arguments.tensors(leaves)
   local function eager()
      for _ = 1, repeats do calls.fn(table.unpack(values, 1, values.n)) end
   end
   local function compiled()
      for _ = 1, repeats do
         torch._call_key(table.unpack(leaves, 1, leaves.n))
         torch._note_holds(entry.note)
         entry.handle:run(tensors)
      end
   end
   local fine, why = pcall(function()
      repeats = time(eager, 0) < 1e-4 and 50 or 1
      local a, b = math.huge, math.huge
      for _ = 1, 3 do a, b = math.min(a, time(eager, 0.01)), math.min(b, time(compiled, 0.01)) end
      calls.times = {a / repeats, b / repeats}
   end)
   restore()
   restore_random()
   if not fine then error(why, 0) end
   return calls.times[2] <= calls.times[1] * 1.02
end

return M
