-- save.lua - torch.distributed.checkpoint.save.
--
-- A checkpoint is a folder. Each rank writes a safetensors file with its parts of the tensors, as
-- boxes; if several ranks have the same part, one of them writes it. The file index.json says where
-- each box of each tensor is stored. The index is moved into place last and atomically, so that the
-- folder holds the previous checkpoint until then.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local boxes = require "tlua.distributed.checkpoint.boxes"
local entries = require "tlua.distributed.checkpoint.entries"
local files = require "tlua.distributed.checkpoint.files"
local groups = require "tlua.distributed.group"

local M = {}

-- Returns a description (names, shapes, dtypes and boxes) of this rank's tensors, which is sent to
-- the other ranks.
local function describe(list)
   local all = {}
   for i, entry in ipairs(list) do
      local parts = {}
      for k, box in ipairs(entry.boxes) do parts[k] = {offset = box.offset, size = box.size} end
      all[i] = {
         name = entry.name, dtype = entry.tensor.dtype, shape = entry.place.shape, parts = parts,
      }
   end
   return all
end

local function same_shape(a, b)
   return table.concat(a.shape, ",") == table.concat(b.shape, ",") and a.dtype == b.dtype
end

-- Returns the index, and a table of the boxes (rectangular parts of tensors) that each rank writes:
-- {[rank + 1] = {{the tensor's number, the box's number, the box's name in the file}, ...}}. If
-- several ranks have a box, the rank with the fewest elements assigned so far writes it.
-- If the ranks' tensors do not fit together, returns nil and a message.
local function assign(described, token)
   local index, holders, order = {}, {}, {}
   for rank, list in ipairs(described) do
      for i, entry in ipairs(list) do
         local known = index[entry.name]
         if not known then
            known = {dtype = entry.dtype, shape = entry.shape, chunks = {}}
            index[entry.name] = known
         elseif not same_shape(known, entry) then
            return nil, ("%s: rank %d has shape (%s) of %s, others (%s) of %s"):format(entry.name,
               rank - 1, table.concat(entry.shape, ", "), entry.dtype,
               table.concat(known.shape, ", "), known.dtype)
         end
         for k, box in ipairs(entry.parts) do
            local key = entry.name .. " " .. boxes.key(box)
            if not holders[key] then
               holders[key] = {name = entry.name, box = box}
               order[#order + 1] = key
            end
            table.insert(holders[key], {rank = rank, tensor = i, part = k})
         end
      end
   end
   local load, work = {}, {}
   for rank = 1, #described do load[rank], work[rank] = 0, {} end
   for _, key in ipairs(order) do
      local held, least = holders[key], nil
      for _, holder in ipairs(held) do
         if not least or load[holder.rank] < load[least.rank] then least = holder end
      end
      local chunks = index[held.name].chunks
      local name = ("%s#%d"):format(held.name, #chunks + 1)
      chunks[#chunks + 1] = {
         file = files.name(token, least.rank - 1), name = name, offset = held.box.offset,
         size = held.box.size,
      }
      load[least.rank] = load[least.rank] + boxes.product(held.box.size)
      table.insert(work[least.rank], {least.tensor, least.part, name})
   end
   for name, known in pairs(index) do
      local n = 0
      for _, chunk in ipairs(known.chunks) do n = n + boxes.product(chunk.size) end
      if n ~= boxes.product(known.shape) then
         return nil, ("%s: the ranks have %d of its %d elements, or have them in different parts")
            :format(name, n, boxes.product(known.shape))
      end
   end
   return index, work
end

local take = args.signature [[save(state_dict: table, checkpoint_id: string,
   process_group: object?)]]

-- Agrees with the other ranks on the tensors that this rank writes. Returns {talk, folder, token,
-- tensors, file, index, output, values, ranks}; index and output are set on the first rank only.
local function prepare(title, ...)
   local a = take(...)
   local group = torch.distributed.is_initialized() and groups.resolve(title, a.process_group)
   local list, optimizers, plain = entries.collect(title, a.state_dict)
   local more, values = entries.of_optimizers(optimizers)
   table.move(more, 1, #more, #list + 1, list)
   for _, entry in ipairs(list) do entry.boxes = boxes.of_tensor(entry.place, entry.tensor) end
   for _, item in ipairs(plain) do values[item[1]] = item[2] end

   local talk = files.talk(group)
   local described, all_values = talk.gather(describe(list)), talk.gather(values)
   local token, index, work, why, output
   if talk.first then
      why = files.make_folder(a.checkpoint_id)
      token = files.new_token(a.checkpoint_id)
      if not why then index, work = assign(described, token) end
      if not why and not index then why, work = work, nil end
      if not why then output, why = files.begin(a.checkpoint_id) end
   end
   local plan = talk.share {why = why, work = work, token = token}
   if plan.why then torch.raise(title .. ": " .. plan.why) end
   local tensors = {}
   for _, item in ipairs(plan.work[talk.rank + 1]) do
      local i, k, name = table.unpack(item)
      tensors[name] = list[i].boxes[k].tensor
   end
   return {
      talk = talk, folder = a.checkpoint_id, token = plan.token, tensors = tensors, index = index,
      file = files.path(a.checkpoint_id, files.name(plan.token, talk.rank)), output = output,
      values = all_values, ranks = #described,
   }
end

-- Moves the index into place if no rank has failed. `failed` is this rank's error message or nil.
local function finish(title, plan, failed)
   local talk, result = plan.talk, {}
   -- on the first rank, closing this file removes the file unless it was committed
   local _ <close> = plan.output
   local failures = talk.gather {why = failed}
   if talk.first then
      for rank, f in pairs(failures) do
         if f.why then result.why = ("rank %d: %s"):format(rank - 1, f.why) end
      end
      if not result.why then
         local merged = {}
         for rank = #plan.values, 1, -1 do
            for path, value in pairs(plan.values[rank]) do merged[path] = value end
         end
         result.why = files.commit(plan.output, plan.folder, plan.token, plan.index, merged,
            plan.ranks)
      end
   end
   result = talk.share(result)
   if result.why then
      os.remove(plan.file)
      torch.raise(title .. ": " .. result.why)
   end
end

--- Saves a table of modules, optimizers, tensors and plain values (and tables of these) from all
--- ranks into a folder. Each rank writes its own parts of split parameters. An earlier checkpoint
--- in the folder stays valid until the new one is complete. Without a process group, this process
--- writes everything.
---@param state_dict table
---@param options {checkpoint_id: string, process_group: distributed.ProcessGroup}
function M.save(...)
   local plan = prepare("save", ...)
   local ok, why = pcall(torch.save, plan.tensors, plan.file)
   finish("save", plan, not ok and tostring(why) or nil)
end

-- In the background -----------------------------------------------------------------------------

--- A checkpoint that is being written.
---
---     local checkpoint = torch.distributed.checkpoint
---     local options = {checkpoint_id = "checkpoint"}
---     local future = checkpoint.async_save({x = torch.ones(2)}, options)
---     future:result() -- waits until the checkpoint is complete
---     local state = {x = torch.zeros(2)}
---     checkpoint.load(state, options)
---     print(state.x)
---     --> tensor([1., 1.])
---@class distributed.checkpoint.Future
local Future = class.class("distributed.checkpoint.Future")

-- Copies this rank's tensors to the host, so that later changes do not reach the file.
local function copies(tensors)
   local _ <close> = torch.no_grad()
   local list = {}
   for name, tensor in pairs(tensors) do
      local copy = tensor:detach():to "cpu"
      list[name] = copy:data_ptr() == tensor:data_ptr() and copy:clone() or copy
   end
   return list
end

local pending = {} -- maps each folder to the Future of a save whose result was not requested yet

function Future:__init(plan)
   self.plan = plan
   pending[plan.folder] = self
   local ok, why = pcall(function()
      self.pool = torch.workers.start("async_save", 1, "tlua.distributed.checkpoint.writer")
      self.pool:send(0, 1, copies(plan.tensors), plan.file)
   end)
   plan.tensors = nil
   if not ok then self:_end(tostring(why)) end
end

function Future:_end(failed)
   self.written, self.failed = true, failed
   if self.pool then self.pool:stop() end
   self.pool = nil
end

-- Waits at most `seconds` seconds for this rank's file; 0 waits until the file is written.
local function await(self, seconds)
   if self.written then return end
   local worker, _, good, why = self.pool:take(seconds)
   if not worker then return end
   self:_end(not good and tostring(why) or why)
end

--- Returns whether this rank has stopped writing its file, successfully or not.
---@return boolean
function Future:done()
   await(self, 1e-6)
   return self.written == true
end

--- Waits until all ranks' files are written, and makes them the folder's checkpoint. This is a
--- collective call, which all ranks make. Until then the folder holds its previous checkpoint.
function Future:result()
   if not self.plan then return end
   await(self, 0)
   local plan = self.plan
   self.plan, pending[plan.folder] = nil, nil
   finish("async_save", plan, self.failed)
end
Future.wait = Future.result

--- Saves like `save`, but writes the files in the background: tensors are copied to the host, and a
--- thread writes the copies. The checkpoint is complete once every rank has called result(), which
--- is required before the next async_save:
---
---    local future = dist.checkpoint.async_save({model = model}, {checkpoint_id = folder})
---    ...                                          -- steps
---    future:result()
---@param state_dict table
---@param options {checkpoint_id: string, process_group: distributed.ProcessGroup}
---@return distributed.checkpoint.Future
function M.async_save(...)
   local folder = take(...).checkpoint_id
   if pending[folder] then
      torch.raise(("async_save: checkpoint_id: %s: the result() of the save before was not " ..
         "asked for"):format(folder))
   end
   return Future(prepare("async_save", ...))
end

return M
