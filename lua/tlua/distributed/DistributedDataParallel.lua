-- DistributedDataParallel.lua - trains one model on many ranks, each of which computes a part of
-- the batch. Gradients are averaged over the ranks while the backward pass still runs, so that
-- every rank's optimizer makes the same step:
--
--    local model = nn.parallel.DistributedDataParallel(net)
--    criterion(model(x), y):backward()
--    optimizer:step()
--
-- The gradients are stored in buckets (buckets.lua), and each .grad is a view of its bucket. A
-- bucket is reduced once all of its gradients have been computed. All ranks reduce the buckets in
-- the same order. Sparse gradients, of an nn.Embedding with the option sparse, are not in buckets:
-- all ranks exchange their rows at the end of a pass (sparse_grads.lua).

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local agree = require "tlua.distributed.agree"
local buckets = require "tlua.distributed.buckets"
local scopes = require "tlua.scope"
local coalesce = require "tlua.distributed.coalesce"
local groups = require "tlua.distributed.group"
local placement = require "tlua.distributed.placement"
local sparse_grads = require "tlua.distributed.sparse_grads"
local Module = require "tlua.nn.modules.Module"

---     local dist, nn = torch.distributed, torch.nn
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
---     model(torch.ones(3, 2)):sum():backward()
---     print(model.module.weight.grad)
---     dist.destroy_process_group()
---     --> tensor([[3., 3.]])
---@class nn.parallel.DistributedDataParallel: nn.Module
---@field module nn.Module  the model
---@overload fun(module: nn.Module, options?: table): nn.parallel.DistributedDataParallel
local DDP, parent = class.class("nn.parallel.DistributedDataParallel", Module)

local name <const> = "DistributedDataParallel"
local first_bytes <const> = 1 << 20

local take = args.signature [[nn.parallel.DistributedDataParallel(module: any,
   process_group: object?,
   bucket_cap_mb: number = 25, find_unused_parameters: boolean = false,
   static_graph: boolean = false, broadcast_buffers: boolean = true,
   gradient_as_bucket_view: boolean = true, init_sync: boolean = true, device_ids: table?,
   output_device: any?)]]

-- Raises an error if the ranks' parameters differ in name, shape, dtype or requires_grad. The
-- message names the first difference.
local function verify(self)
   local mine = {}
   for path, parameter in self.module:named_parameters() do
      mine[#mine + 1] = ("%s (%s, %s%s)"):format(path, table.concat(parameter.shape, "x"),
         parameter.dtype, parameter.requires_grad and "" or ", frozen")
   end
   placement.refuse_split(name, self.module:parameters(), self.group)
   agree(name, "parameter", self.group, mine)
end

local function broadcast(self, tensors, from)
   coalesce.each(tensors, function(flat)
      self.group:run("broadcast", {outputs = flat, root = from})
   end)
end

-- Checks device_ids and output_device: a process has one replica of the model, on the device of the
-- model's parameters.
local function check_devices(module, ids, what)
   if not ids then return end
   if #ids ~= 1 then
      torch.raise(("%s: %s: expected one device, the module's, got %d; nn.DataParallel " ..
         "takes several"):format(name, what, #ids))
   end
   for path, parameter in module:named_parameters() do
      local own, id = parameter.device, ids[1]
      local given = math.type(id) == "integer" and {type = own.type, index = id}
         or torch._to_device(id)
      local same = given and given.type == own.type
         and (given.index == own.index or given.index == nil and own.index == 0)
      if not same then
         torch.raise(("%s: %s: expected the device of the module's parameters, got %s, " ..
            "but %s is on %s"):format(name, what, ids[1], path, parameter.device))
      end
   end
end

--- Wraps a model. device_ids and output_device are nil or name the one device of the model.
--- gradient_as_bucket_view = false gives each gradient separate memory, which costs a copy.
--- static_graph promises that the same parameters lack a gradient in all passes. The first pass
--- finds these parameters as find_unused_parameters does. Later passes do not search, and raise an
--- error if other parameters lack a gradient.
function DDP:__init(...)
   parent.__init(self)
   local a = take(...)
   if not class.isinstance(a.module, Module) then
      args.refuse(name, "module", "a module", a.module)
   end
   check_devices(a.module, a.device_ids, "device_ids")
   if a.output_device ~= nil then check_devices(a.module, {a.output_device}, "output_device") end
   local group = groups.resolve(name, a.process_group)
   if not group then torch.raise(name .. ": this rank is not of the group") end
   local function keep(field, value) rawset(self, field, value) end
   self.module = a.module
   keep("group", group)
   keep("bucket_bytes", math.max(1, math.floor(a.bucket_cap_mb * (1 << 20))))
   keep("find_unused", a.find_unused_parameters and not a.static_graph)
   keep("static_graph", a.static_graph)
   keep("as_view", a.gradient_as_bucket_view)
   keep("broadcast_buffers", a.broadcast_buffers and #a.module:buffers() > 0)
   keep("sync", true)
   keep("passes", 0)
   -- The number of backward passes of this thread that had failed before the last forward pass; nil
   -- if no forward pass waits for its backward pass. A larger number afterwards shows that the
   -- backward pass has failed.
   keep("awaits", nil)
   local params, names, sparse, is_sparse = {}, {}, {}, sparse_grads.find(a.module)
   for path, parameter in a.module:named_parameters() do
      if parameter.requires_grad and is_sparse[parameter] then
         sparse[#sparse + 1] = parameter
      elseif parameter.requires_grad then
         params[#params + 1] = parameter
         names[#params] = path
      end
   end
   if #params + #sparse == 0 then
      torch.raise(name .. ": module: no parameter requires a gradient; it needs no averaging")
   end
   keep("params", params)
   keep("sparse", sparse)
   keep("names", names)
   verify(self)
   if a.init_sync then
      broadcast(self, a.module:parameters())
      broadcast(self, a.module:buffers())
   end
   local order = {}
   for i = #params, 1, -1 do order[#order + 1] = i end
   self:_build(order)
   for i, parameter in ipairs(params) do
      parameter:register_post_accumulate_grad_hook(function() DDP._arrived(self, i) end)
   end
   for _, parameter in ipairs(sparse) do
      parameter:register_post_accumulate_grad_hook(function() DDP._sparse_arrived(self) end)
   end
end

function DDP:_build(order)
   local raw = self.group.raw
   local list, place = buckets.make(self.params, order,
      math.min(first_bytes, self.bucket_bytes), self.bucket_bytes, raw)
   for _, bucket in ipairs(rawget(self, "buckets") or {}) do raw:buffer(bucket.flat, false) end
   for _, bucket in ipairs(list) do raw:buffer(bucket.flat, true) end
   rawset(self, "buckets", list)
   rawset(self, "place", place)
   rawset(self, "order", order)
end

-- A pass --------------------------------------------------------------------------------------

local function begin(self)
   local pass = {ready = {}, missing = {}, works = {}, order = {}, next = 1}
   for i = 1, #self.params do pass.ready[i] = false end
   for b, bucket in ipairs(self.buckets) do pass.missing[b] = #bucket.list end
   rawset(self, "pass", pass)
   torch.autograd.queue_callback(function() self:_finish() end)
   return pass
end

-- At the beginning of a pass with static_graph, gathers the parameters without a gradient, so that
-- they do not delay their buckets. The table `static` is nil until the first pass has ended. In it,
-- `unused` lists the indices of parameters without a gradient on this rank, `is_unused` is that
-- list as a set, and `used` flags parameters with a gradient on some rank.
local function gather_static(self, pass, gather)
   local static = rawget(self, "static")
   if not static then return end
   local _ <close> = torch.no_grad()
   for _, i in ipairs(static.unused) do gather(self, pass, i) end
end

-- Abandons the current pass. Other ranks may still be in that pass, so later calls of this rank get
-- a new pass number.
local function leave_pass(self)
   rawset(self, "pass", nil)
   rawset(self, "awaits", nil)
   self.group.raw:next_pass()
end

local function refuse_change(self, i, what)
   leave_pass(self)
   torch.raise(("%s: static_graph: %s %s on rank %d, unlike in the first pass"):format(name,
      self.names[i], what, torch.distributed.get_rank()))
end

local function reduce(self, bucket)
   local hook = rawget(self, "comm_hook")
   if hook then return hook(self.comm_state, bucket) end
   return self.group:run("all_reduce", {outputs = bucket.flat, op = "avg", async_op = true})
end

-- Begins to reduce the next buckets in the order of reduction, up to the first bucket that is not
-- complete.
local function launch(self, pass)
   while pass.missing[pass.next] == 0 do
      pass.works[pass.next] = reduce(self, self.buckets[pass.next])
      pass.next = pass.next + 1
   end
end

-- Copies the gradient of parameter i, or zeros if it has none, into the parameter's bucket.
local function gather(self, pass, i)
   local place = self.place[i]
   local bucket, view = place[1], place[3]
   local parameter = self.params[i]
   local grad = parameter.grad
   if not grad then
      view:zero_()
   elseif grad:data_ptr() ~= place[4] then
      view:copy_(grad)
      if pass.ready[i] then parameter.grad = view end
   end
   pass.missing[bucket.number] = pass.missing[bucket.number] - 1
end

-- Returns the table of the pass that is running. Begins a pass if none is running.
local function current(self)
   local pass = rawget(self, "pass")
   if not pass then
      pass = begin(self)
      gather_static(self, pass, gather)
   end
   return pass
end

--- Is called when a sparse gradient was added to a parameter's .grad; begins a pass if none is
--- running.
function DDP:_sparse_arrived()
   if self.sync then current(self) end
end

--- Is called when a gradient was added to the .grad of parameter i. Copies the gradient into its
--- bucket, and reduces the buckets that are then complete.
function DDP:_arrived(i)
   if not self.sync then return end
   local pass = current(self)
   -- In a nested backward pass, the bucket's view is .grad already and contains the sum, so nothing
   -- is copied.
   if pass.ready[i] then return end
   local static = rawget(self, "static")
   if static and static.is_unused[i] then refuse_change(self, i, "got a gradient") end
   pass.ready[i] = true
   pass.order[#pass.order + 1] = i
   local _ <close> = torch.is_grad_enabled() and torch.no_grad() or nil
   gather(self, pass, i)
   launch(self, pass)
end

local function unused(self, pass)
   local list, static = {}, rawget(self, "static")
   for i = 1, #self.params do
      if not pass.ready[i] and not (static and static.is_unused[i]) then list[#list + 1] = i end
   end
   return list
end

local function refuse_unused(self, list)
   local names = {}
   for k, i in ipairs(list) do
      names[k] = self.names[i]
      if k == 10 and #list > 10 then
         names[k] = ("%s and %d more"):format(names[k], #list - 10)
         break
      end
   end
   leave_pass(self)
   torch.raise(("%s: no gradient came for %s on rank %d; if the loss does not depend on all " ..
      "parameters, give find_unused_parameters = true"):format(name, table.concat(names, ", "),
      torch.distributed.get_rank()))
end

-- Returns a flag for each parameter: 1 if some rank has used it, otherwise 0.
local function used_anywhere(self, pass)
   local flags = torch.zeros({#self.params}, {dtype = "uint8", device = "cpu"})
   for i = 1, #self.params do
      if pass.ready[i] then flags[i] = 1 end
   end
   self.group:run("all_reduce", {outputs = flags, op = "max"})
   return flags:tolist()
end

-- Divides the parameters into new buckets, in the order in which rank 0's gradients were computed
-- in this pass. `left` lists the parameters without a gradient, which come last.
local function rebuild(self, pass, left)
   local order = table.move(left, 1, #left, #pass.order + 1, pass.order)
   order = torch.tensor(order, {dtype = "int64", device = "cpu"})
   self.group:run("broadcast", {outputs = order})
   order = order:tolist()
   local same = true
   for k, i in ipairs(order) do same = same and self.order[k] == i end
   if not same then self:_build(order) end
end

--- Finishes the reduction after the backward pass has ended.
function DDP:_finish()
   local pass = rawget(self, "pass")
   if not pass then return end
   local _ <close> = torch.no_grad()
   local left = unused(self, pass)
   local static = rawget(self, "static")
   local searches = self.find_unused or (self.static_graph and not static)
   if #left > 0 and static then refuse_change(self, left[1], "got no gradient") end
   if #left > 0 and not searches then refuse_unused(self, left) end
   for _, i in ipairs(left) do gather(self, pass, i) end
   launch(self, pass)
   local used = static and static.used or searches and used_anywhere(self, pass)
   if self.static_graph and not static then
      static = {unused = left, is_unused = {}, used = used}
      for _, i in ipairs(left) do static.is_unused[i] = true end
      rawset(self, "static", static)
   end
   for b, work in ipairs(pass.works) do
      local result = work:wait()
      if torch.is_tensor(result) and result:data_ptr() ~= self.buckets[b].flat:data_ptr() then
         self.buckets[b].flat:copy_(result)
      end
   end
   for i, parameter in ipairs(self.params) do
      if not self.as_view and (not used or used[i] ~= 0) then
         parameter.grad = self.place[i][3]:clone()
      elseif not pass.ready[i] and (not used or used[i] ~= 0) then
         -- the .grad of a parameter whose gradient was computed already is this view
         parameter.grad = self.place[i][3]
      end
   end
   for _, parameter in ipairs(self.sparse) do sparse_grads.average(self.group, parameter) end
   leave_pass(self)
   rawset(self, "passes", self.passes + 1)
   if self.passes == 1 and not self.find_unused and not rawget(self, "joining") then
      rebuild(self, pass, left)
   end
end

-- Calling --------------------------------------------------------------------------------------

--- Returns the model's output for this rank's part of the batch, and prepares the backward pass.
function DDP:forward(...)
   local failures = torch.autograd._failures()
   local awaits = rawget(self, "awaits")
   -- the last backward pass has failed
   if rawget(self, "pass") or awaits and awaits ~= failures then
      leave_pass(self)
   end
   if self.sync and torch.is_grad_enabled() then rawset(self, "awaits", failures) end
   local from = 0
   local joining = rawget(self, "joining")
   if joining then from = joining(self) end
   if self.broadcast_buffers and self.sync and torch.is_grad_enabled() then
      broadcast(self, self.module:buffers(), from)
   end
   return self.module(...)
end

--- Accumulates gradients on each rank without averaging them, while fn runs or until the scope is
--- closed. If a step consists of several backward passes, programs use no_sync for all but the last
--- pass.
---@param fn? function
---@param ... any  fn's arguments
---@return any ...  fn's results, or the scope
function DDP:no_sync(fn, ...)
   scopes.check_function("DistributedDataParallel.no_sync", fn)
   return scopes.with_field(self, "sync", false, fn, ...)
end

--- Sets a function that averages the buckets of gradients in place of an all_reduce. hook(state,
--- bucket) starts the communication and returns an object with a method `wait`, which waits for its
--- end. `wait` may return the result; otherwise the result is read from bucket:buffer().
---@param state any
---@param hook fun(state: any, bucket: distributed.GradBucket): {wait: function}
function DDP:register_comm_hook(state, hook)
   if type(hook) ~= "function" then
      args.refuse("register_comm_hook", "hook", "a function", hook)
   end
   if self.comm_hook then torch.raise "register_comm_hook: a hook is registered already" end
   rawset(self, "comm_state", state)
   rawset(self, "comm_hook", hook)
end

-- Takes part in the collective calls that other ranks make for one step, with zeros as this rank's
-- gradients. Buffers are received from rank `from`.
function DDP:_shadow(from)
   if self.broadcast_buffers then
      broadcast(self, self.module:buffers(), from)
   end
   for _, bucket in ipairs(self.buckets) do
      bucket.flat:zero_()
      reduce(self, bucket):wait()
   end
   for _, parameter in ipairs(self.sparse) do
      parameter.grad = nil
      sparse_grads.average(self.group, parameter)
   end
   if self.find_unused or (self.static_graph and not rawget(self, "static")) then
      used_anywhere(self, {ready = {}})
   end
   leave_pass(self)
end

return DDP
