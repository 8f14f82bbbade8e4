-- timeline.lua - shows the memory in use over time, classified into categories.

local M = {}

--- The categories, in the order in which a page stacks them.
M.categories = {
   "parameters", "optimizer state", "gradients", "activations", "temporary", "cached",
}

local plural <const> = {
   parameter = "parameters", gradient = "gradients", activation = "activations",
}
local rank = {
   parameters = 4, ["optimizer state"] = 3, gradients = 2, activations = 1, temporary = 0,
}

-- Returns, for each event inside an optimizer's step, the outermost step that contains it.
local function optimizer_steps(session)
   local step_of, event = {}, {}
   for i = 1, session:state().events do
      session:event(i, event)
      step_of[i] = step_of[event.parent] or event.kind == "optimizer" and i or nil
   end
   return step_of
end

-- Returns the times at which each storage was allocated and freed, and its category. A storage that
-- already existed when the profile began has the time 0.
local function lives(session)
   local state, change = session:state(), {}
   local step_of, alive, list = optimizer_steps(session), {}, {}
   local function begin(storage, time, bytes, event)
      local life = {from = time, to = state.duration, bytes = bytes, category = "temporary"}
      if step_of[event] then life.step = step_of[event] end
      alive[storage], list[#list + 1] = life, life
      return life
   end
   for i = 1, state.memory_events do
      session:memory(i, change)
      local time, storage, bytes, mark = change.time, change.storage, change.bytes, change.category
      if mark ~= "unknown" then
         local life = alive[storage] or begin(storage, 0, bytes, 0)
         if rank[plural[mark]] > rank[life.category] then life.category = plural[mark] end
      elseif bytes > 0 then
         begin(storage, time, bytes, change.event)
      else
         local life = alive[storage] or begin(storage, 0, -bytes, 0)
         life.to, alive[storage] = time, nil
      end
   end
   -- A tensor that outlives the optimizer's step in which it was made belongs to the optimizer's
   -- state.
   for _, life in ipairs(list) do
      if life.step and life.category == "temporary" then
         local step = session:event(life.step)
         if life.to > step.begin + step.duration then life.category = "optimizer state" end
      end
   end
   return list
end

-- Appends the changes in the bytes that allocators keep for reuse, summed over all devices, as
-- changes of the category `category`.
local function add_cached(session, changes, category)
   local on, all, state, record = {}, 0, session:state(), {}
   for i = 1, state.memory_events do
      session:memory(i, record)
      local time, device, cached = record.time, record.device, record.cached
      local change = cached - (on[device] or 0)
      on[device] = cached
      if change ~= 0 then
         all = all + change
         changes[#changes + 1] = {time, category, change}
      end
   end
   changes[#changes + 1] = {state.duration, category, -all}
end

--- Returns the memory in use at up to `most` moments: {time =, bytes =}. The time is in ns, and
--- `bytes` is a list with the bytes of each category.
---@param session any
---@param most integer
---@return {time: integer, bytes: integer[]}[]
function M.points(session, most)
   local index = {}
   for i, name in ipairs(M.categories) do index[name] = i end
   local changes = {}
   for _, life in ipairs(lives(session)) do
      local category = index[life.category]
      changes[#changes + 1] = {life.from, category, life.bytes}
      changes[#changes + 1] = {life.to, category, -life.bytes}
   end
   add_cached(session, changes, index.cached)
   table.sort(changes, function(a, b)
      if a[1] ~= b[1] then return a[1] < b[1] end
      return a[3] > b[3]
   end)
   local duration = session:state().duration
   local now, points, keep = {}, {}, nil
   for i = 1, #M.categories do now[i] = 0 end
   -- The time is divided into slices. From each slice, the moment with the most memory in use is
   -- kept.
   local slice, slice_most = -1, -1
   local function note(time)
      local all = 0
      for _, bytes in ipairs(now) do all = all + bytes end
      local at = time * most // math.max(duration, 1)
      if at ~= slice then
         if keep then points[#points + 1] = keep end
         slice, slice_most = at, -1
      end
      if all > slice_most then
         slice_most, keep = all, {time = time, bytes = table.move(now, 1, #now, 1, {})}
      end
   end
   for i, change in ipairs(changes) do
      now[change[2]] = now[change[2]] + change[3]
      local next_one = changes[i + 1]
      local last = not (next_one and next_one[1] == change[1])
      if last and change[1] < duration then note(change[1]) end
   end
   if keep then points[#points + 1] = keep end
   return points
end

return M
