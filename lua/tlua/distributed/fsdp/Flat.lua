-- Flat.lua - the parameters of one module and one dtype, concatenated in one row that is sharded
-- over ranks.
--
-- Each rank keeps one of N equal parts of the row, the last one padded. The parameter is then a
-- one-dimensional tensor of its elements that lie in this rank's part; it may be empty. For the
-- duration of a forward or backward pass, the row is gathered into `full`, and the same tensors
-- become views of `full` with their whole shapes. A graph saves the tensors themselves, so that
-- saved values are freed and gathered together with the row. Gathering adds `unsharded` to the
-- tensors' versions, so that a graph which meets a shard in place of the whole parameter raises an
-- error instead of reading freed memory.
--
-- Gradients are copied into a row of the same order as they become ready. That row is then reduced
-- and scattered.

local torch = require "tlua"
local class = require "tlua.class"
local placement = require "tlua.distributed.placement"

---@class distributed.fsdp.Flat
---@field params Tensor[]
---@field trained boolean  whether they require gradients
---@field shard Tensor  (per) this rank's part
---@field full Tensor?  (per * N) the gathered row; nil unless gathered
local Flat = class.class("distributed.fsdp.Flat")

local unsharded <const> = 1 << 31 -- this number is added to the versions of gathered parameters

--- `owner` is the module's state of FSDP. Its field compute_device is the device where parameters
--- that were on meta are gathered; nil means the device of the shards.
---@param owner table  with the fields group, replicas, policy, device, shard_device,
--- compute_device, all_reduce, divide_factor and all_reduce_hook
---@param params Tensor[]
---@param paths string[]  the parameters' names
function Flat:__init(owner, params, paths)
   self.owner, self.params, self.paths = owner, params, paths
   self.trained, self.dtype = params[1].requires_grad, params[1].dtype
   self.shapes, self.at, self.count = {}, {}, {}
   local n, size = 0, #owner.group.ranks
   for i, p in ipairs(params) do
      self.shapes[i], self.at[i], self.count[i] = p.shape, n, p:numel()
      n = n + self.count[i]
   end
   self.n, self.per = n, -(-n // size)
   self.compute_dtype = owner.policy.param_dtype or self.dtype
   self.pieces, self.stash, self.filled, self.arrived = {}, {}, {}, 0
   self:_share_out()
end

-- Copies this rank's part of all parameters into one shard and makes the parameters views of the
-- shard.
function Flat:_share_out()
   local _ <close> = torch.no_grad()
   local owner = self.owner
   self.shard = torch.zeros({self.per}, {dtype = self.dtype, device = owner.shard_device})
   for i, p in ipairs(self.params) do
      placement.flatten(p, self.at[i], self.per, owner.group)
      local place = placement.get(p)
      local first = place.first + self.at[i] - owner.group.group_rank * self.per
      if place.count == 0 then first = 0 end
      local piece = self.shard:narrow(1, first + 1, place.count)
      if place.count > 0 then
         piece:copy_(p:detach():reshape(-1):narrow(1, place.first + 1, place.count))
      end
      self.pieces[i] = piece
      p.grad = nil
      p.data = piece
   end
end

-- Moves a module that was sharded on the meta device to a real device. to_empty has given each
-- parameter separate memory, which the program may have filled. This function copies the parameters
-- into one shard and makes them its views again.
local function leave_meta(self)
   local owner = self.owner
   for i, p in ipairs(self.params) do
      if p.is_meta then
         torch.raise(("fully_shard: parameter %s is on the meta device and has no values: call "
            .. "to_empty{device = ...} of the module, and load or initialise them"):format(
            self.paths[i]))
      end
   end
   local device = self.params[1].device
   owner.device, owner.shard_device = owner.compute_device or device, device
   local _ <close> = torch.no_grad()
   self.shard = torch.zeros({self.per}, {dtype = self.dtype, device = device})
   for i, p in ipairs(self.params) do
      local piece = self.shard:narrow(1, self.pieces[i]:storage_offset() + 1, p:numel())
      piece:copy_(p:detach())
      self.pieces[i] = piece
      p.data = piece
   end
end

local function version_of(self)
   return self.shard._version
end

--- Raises an error if a parameter's memory is no longer the parameter's part of the shard, because
--- the user has replaced or moved it.
function Flat:check()
   if self.shard.is_meta then leave_meta(self) end
   for i, p in ipairs(self.params) do
      if p:data_ptr() ~= self.pieces[i]:data_ptr() or p:numel() ~= self.pieces[i]:numel() then
         torch.raise(("fully_shard: parameter %s was replaced or moved after fully_shard; move " ..
            "and cast a module before"):format(self.paths[i]))
      end
   end
end

-- The row ----------------------------------------------------------------------------------------

local function views(row, n)
   local list, per = {}, row:size(1) // n
   for i = 1, n do list[i] = row:narrow(1, (i - 1) * per + 1, per) end
   return list
end

local function release(list)
   for _, tensor in ipairs(list) do tensor:release() end
end

--- Begins to gather the whole row from the ranks, unless it is already gathered or being gathered.
function Flat:gather()
   if self.full and not self.lent and self.full_version ~= version_of(self) then
      -- The row was gathered for an earlier forward pass that had no backward pass, and the
      -- parameters have changed since.
      self:free()
   end
   if self.full or self.gathering then return end
   if self.shard.is_meta then leave_meta(self) end
   local _ <close> = torch.no_grad()
   local owner = self.owner
   local size = #owner.group.ranks
   local input = self.shard:detach():to(owner.device):to(self.compute_dtype)
   local row = torch.empty({self.per * size}, {dtype = self.compute_dtype, device = owner.device})
   local outputs = views(row, size)
   local work = owner.group:run("all_gather",
      {inputs = input, outputs = outputs, async_op = true})
   release(outputs)
   self.gathering = {work = work, row = row, input = input}
   self.full_version = version_of(self)
end

-- Frees the memory of a tensor unless the tensor is the shard itself.
local function drop(self, tensor)
   if tensor:data_ptr() ~= self.shard:data_ptr() then tensor:release() end
end

--- Waits until the row is gathered; the parameters stay shards.
function Flat:wait()
   self:gather()
   if self.full then return end
   local g = self.gathering
   g.work:wait()
   drop(self, g.input)
   self.full, self.gathering = g.row, nil
end

--- Gives the parameters their whole shapes and the memory of the gathered row. Until take_back is
--- called, `stash` keeps the gradients of the shards.
function Flat:lend()
   if self.lent then return end
   self:wait()
   local version = (version_of(self) + unsharded) & 0xffffffff
   for i, p in ipairs(self.params) do
      self.stash[i] = p.grad
      p.grad = nil
      local row = self.full:narrow(1, self.at[i] + 1, self.count[i])
      local view = row:view(self.shapes[i])
      torch.autograd._lend(p, view, version)
      view:release()
      row:release()
   end
   self.lent = true
end

--- Gives the parameters the memory and the gradients of this rank's shards again. The gathered row
--- stays allocated.
function Flat:take_back()
   if not self.lent then return end
   local version = version_of(self)
   for i, p in ipairs(self.params) do
      if p.grad then -- a pass that failed has left a gradient of the whole parameter
         p.grad = nil
      end
      torch.autograd._lend(p, self.pieces[i], version)
      local grad = self.stash[i]
      p.grad = grad
      -- the parameter holds the gradient now, so the stash's own reference to it is released
      if grad then grad:release() end
      self.stash[i] = nil
   end
   self.lent = false
end

--- Releases the memory of the gathered row.
function Flat:free()
   self:take_back()
   -- the row was gathered but never used, so the gathering must end before the memory is freed
   local g = self.gathering
   if g then
      g.work:wait()
      drop(self, g.input)
      g.row:release()
      self.gathering = nil
   end
   if self.full then self.full:release() end
   self.full = nil
end

--- Drops a row that was gathered for a pass that has ended without using it.
function Flat:forget()
   if self.gathering then self:free() end
end

-- Gradients --------------------------------------------------------------------------------------

--- Copies a parameter's new gradient into the row of gradients. Returns true once all gradients
--- have been copied.
function Flat:collect(i)
   local _ <close> = torch.no_grad()
   local p, owner = self.params[i], self.owner
   local grad = p.grad
   if not grad then return false end
   if not self.grads then
      local dtype = owner.policy.reduce_dtype or grad.dtype
      self.grads = torch.zeros({self.per * #owner.group.ranks},
         {dtype = dtype, device = owner.device})
   end
   local into = self.grads:narrow(1, self.at[i] + 1, self.count[i])
   local row = grad:reshape(-1)
   if self.filled[i] then into:add_(row) else into:copy_(row) end
   into:release()
   row:release()
   p.grad = nil
   grad:release()
   self.filled[i] = true
   if not self.seen then self.seen = {} end
   if not self.seen[i] then
      self.seen[i] = true
      self.arrived = self.arrived + 1
   end
   return self.arrived == #self.params
end

--- Begins to average the row of gradients over the ranks and to scatter it.
function Flat:reduce()
   local owner = self.owner
   local size = #owner.group.ranks
   local _ <close> = torch.no_grad()
   local inputs = views(self.grads, size)
   local mine = torch.empty({self.per}, {dtype = self.grads.dtype, device = owner.device})
   local op = owner.divide_factor and "sum" or "avg"
   local work = owner.group:run("reduce_scatter",
      {inputs = inputs, outputs = mine, op = op, async_op = true})
   release(inputs)
   self.reducing = {work = work, row = self.grads, mine = mine}
   self.grads, self.filled = nil, {}
end

-- Adds this rank's part of the averages to the gradients of its shards. The first gradient of a
-- shard becomes a separate tensor, as in DistributedDataParallel, because a view could not be
-- detached.
local function deposit(self, mine)
   for i, p in ipairs(self.params) do
      local first = self.pieces[i]:storage_offset()
      local part = mine:narrow(1, first + 1, self.pieces[i]:numel())
      local plain = part.data
      local held = p.grad
      if self.lent then held = self.stash[i] end
      if held then
         held:add_(plain)
      elseif self.lent then
         self.stash[i] = plain
      else
         p.grad = plain
      end
      if not rawequal(self.stash[i], plain) then plain:release() end
      part:release()
   end
end

-- Averages this rank's part of the gradients over the replicas of the shards. Returns false if a
-- later pass will do so, because the user has turned this average off.
local function average(self, mine)
   local owner = self.owner
   local replicas, factor = owner.replicas, owner.divide_factor
   if replicas then
      if self.waiting then
         mine:add_(self.waiting)
         self.waiting:release()
         self.waiting = nil
      end
      if not owner.all_reduce then
         self.waiting = mine
         return false
      end
      replicas:run("all_reduce", {outputs = mine, op = factor and "sum" or "avg"})
   end
   if factor then mine:div_(factor) end
   if owner.all_reduce_hook then owner.all_reduce_hook(mine) end
   return true
end

--- Waits for averages that are still being computed, and puts them into the parameters' `grad`.
function Flat:finish()
   local r = self.reducing
   if not r then return end
   local _ <close> = torch.no_grad()
   self.reducing = nil
   r.work:wait()
   r.row:release()
   local owner, mine = self.owner, r.mine
   if not average(self, mine) then return end
   local cast = mine:to(self.dtype):to(owner.shard_device)
   deposit(self, cast)
   if not rawequal(cast, mine) then mine:release() end
   cast:release()
end

--- Discards the state of a failed pass.
function Flat:reset()
   if self.reducing then pcall(function() self.reducing.work:wait() end) end
   self.reducing, self.grads, self.filled, self.seen, self.arrived = nil, nil, {}, nil, 0
   if self.gathering then pcall(function() self.gathering.work:wait() end) end
   self.gathering = nil
   self:free()
end

return Flat
