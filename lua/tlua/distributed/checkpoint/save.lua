-- save.lua - torch.distributed.checkpoint.save.
--
-- A checkpoint is a folder. Each rank writes a safetensors file with its parts of the tensors, as
-- boxes; of what several ranks have, one of them does. The file index.json says which box of which
-- tensor is where, and is put in place last, at once: until then the folder holds what it held.

local torch = require "tlua"
local args = require "tlua.args"
local boxes = require "tlua.distributed.checkpoint.boxes"
local entries = require "tlua.distributed.checkpoint.entries"
local files = require "tlua.distributed.checkpoint.files"
local groups = require "tlua.distributed.group"

local M = {}

-- What rank 0 has to know of this rank's tensors.
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

-- The index of all ranks' tensors, and the boxes that each rank writes: {[rank] = {[tensor's
-- number] = {[box's number] = name}}}. Of equal boxes the rank with the fewest elements so far
-- writes one.
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

-- Writes this rank's file; a message where that fails.
local function write(path, list, work)
   local tensors = {}
   for _, item in ipairs(work) do
      local i, k, name = table.unpack(item)
      tensors[name] = list[i].boxes[k].tensor
   end
   local ok, why = pcall(torch.save, tensors, path)
   return not ok and tostring(why) or nil
end

local take = args.signature [[save(state_dict: table, checkpoint_id: string,
   process_group: object?)]]

--- Saves a table of modules, optimizers, tensors and plain values (and tables of these) from all
--- ranks into a folder: each writes what it has of parameters that are split. What was in the
--- folder stays valid until all is written. In a program without process group: from this one
--- process.
---@param state_dict table
---@param options {checkpoint_id: string, process_group: distributed.ProcessGroup}
function M.save(...)
   local a = take(...)
   local group = torch.distributed.is_initialized() and groups.resolve("save", a.process_group)
   local list, optimizers, plain = entries.collect("save", a.state_dict)
   local more, values = entries.of_optimizers(optimizers)
   table.move(more, 1, #more, #list + 1, list)
   for _, entry in ipairs(list) do entry.boxes = boxes.of_tensor(entry.place, entry.tensor) end
   for _, item in ipairs(plain) do values[item[1]] = item[2] end

   local talk = files.talk(group)
   local described, all_values = talk.gather(describe(list)), talk.gather(values)
   local token, index, work, why
   if talk.first then
      why = files.make_folder(a.checkpoint_id)
      token = files.new_token(a.checkpoint_id)
      if not why then index, work = assign(described, token) end
      if not why and not index then why, work = work, nil end
   end
   local plan = talk.share {why = why, work = work, token = token}
   if plan.why then torch.raise("save: " .. plan.why) end
   local file = files.path(a.checkpoint_id, files.name(plan.token, talk.rank))
   local failed = write(file, list, plan.work[talk.rank + 1])
   local failures = talk.gather {why = failed}
   local result = {}
   if talk.first then
      for rank, f in pairs(failures) do
         if f.why then result.why = ("rank %d: %s"):format(rank - 1, f.why) end
      end
      if not result.why then
         local merged = {}
         for rank = #all_values, 1, -1 do
            for path, value in pairs(all_values[rank]) do merged[path] = value end
         end
         result.why = files.commit(a.checkpoint_id, plan.token, index, merged, #described)
      end
   end
   result = talk.share(result)
   if result.why then
      os.remove(file)
      torch.raise("save: " .. result.why)
   end
end

return M
