-- scheduler.lua - computes several sequences of tokens in one batch. Sequences join and leave
-- between steps (continuous batching): a step computes one new token of each sequence that
-- generates, and fills the rest of its n_batch tokens with prompts.
--
-- A slot is a cache of keys and values with its tokens. It keeps them when its sequence has ended,
-- and the next sequence with the same beginning continues from them.

local torch = require "tlua"
local class = require "tlua.class"
local Cache = require "tlua.text.models.cache"
local CacheBatch = require "tlua.text.models.cache_batch"

local Scheduler = class.class("llm.Scheduler")

---@param model text.PreTrainedModel
---@param settings {n_parallel: integer, n_batch: integer, device: any, new_cache: function?,
--- vocab: integer?, idle_bytes: integer?}  vocab: only the first tokens, as many as this number,
--- are generated; idle_bytes: the most memory of caches that are kept for later sequences
function Scheduler:__init(model, settings)
   self.model, self.n_batch, self.device = model, settings.n_batch, settings.device
   self.new_cache = settings.new_cache or Cache
   self.vocab, self.idle_bytes = settings.vocab, settings.idle_bytes or math.huge
   self.slots, self.open, self.waiting, self.clock = {}, {}, {}, 0
   self.n_parallel = settings.n_parallel -- further slots are made when they are needed
   self:_add_slot()
end

-- Slots -----------------------------------------------------------------------------------------

function Scheduler:_add_slot()
   local slot = {cache = self.new_cache(), tokens = {}, used = 0}
   self.slots[#self.slots + 1] = slot
   return slot
end

local function empty(self, slot)
   slot.tokens = {}
   -- The buffers are reused, unless a layer with a sliding window has dropped keys.
   if not slot.cache:crop(0) then slot.cache = self.new_cache() end
end

-- Crops a slot to its first `count` tokens; empties it if that is impossible. The cache is always
-- cropped, since a step that an error has ended leaves keys in some layers.
local function crop(self, slot, count)
   if count > 0 and slot.cache:crop(count) then
      for i = #slot.tokens, count + 1, -1 do slot.tokens[i] = nil end
   else
      empty(self, slot)
   end
end

local function common(a, b)
   local n = 0
   while n < #a and n < #b and a[n + 1] == b[n + 1] do n = n + 1 end
   return n
end

-- Returns the free slot whose tokens have the longest common beginning with `tokens`; of several,
-- the one that was used the longest time ago. Returns nil if no slot is free.
local function choose(self, tokens)
   local best, most
   for _, slot in ipairs(self.slots) do
      if not slot.sequence then
         local n = common(slot.tokens, tokens)
         if not best or n > most or n == most and slot.used < best.used then
            best, most = slot, n
         end
      end
   end
   if #self.slots < self.n_parallel and (most or 0) == 0 then return self:_add_slot(), 0 end
   return best, most
end

--- Returns the number of tokens whose keys and values are in the first slot.
---@return integer
function Scheduler:cached() return #self.slots[1].tokens end

--- Empties the caches of all free slots.
---@param all? boolean  also the slots of sequences, whose tokens are then computed again
function Scheduler:reset(all)
   for _, slot in ipairs(self.slots) do
      if all or not slot.sequence then empty(self, slot) end
   end
end

--- Returns the first slot. Raises an error while a sequence uses it.
---@return table
function Scheduler:free_slot()
   self:_recover()
   if self.slots[1].sequence then
      torch.raise "llm: the model's cache is in use by the text that is being generated"
   end
   return self.slots[1]
end

-- Sequences -------------------------------------------------------------------------------------

--- Adds a sequence, which waits until a slot is free.
---@param tokens integer[]  the prompt, which the scheduler extends by the new tokens
---@param hooks table  owner, if given, is the coroutine (in weak_list) without which nobody wants
--- the text; sampler (of sampling.lua); accept(token), called for each new token, returns
--- the reason of the end or nil; draft(tokens, most), if given, returns up to `most` tokens that
--- may follow, and the distributions that they were drawn from (of drafts.lua)
---@return table sequence
function Scheduler:add(tokens, hooks)
   local sequence = {tokens = tokens, prompt = #tokens, cached = 0, hooks = hooks,
      drafted = 0, accepted = 0}
   self.waiting[#self.waiting + 1] = sequence
   return sequence
end

local function remove(list, value)
   for i, item in ipairs(list) do
      if item == value then
         table.remove(list, i)
         return
      end
   end
end

local function bytes_of(cache)
   local sum = 0
   for _, layer in ipairs(cache.layers) do
      for _, buffer in ipairs(layer.buffers) do
         sum = sum + buffer:numel() * buffer:element_size()
      end
   end
   return sum
end

-- Drops the caches of free slots that were used the longest time ago, until at most idle_bytes are
-- kept.
local function drop_idle(self)
   while true do
      local total, oldest = 0, nil
      for _, slot in ipairs(self.slots) do
         if not slot.sequence and #slot.cache.layers > 0 then
            total = total + bytes_of(slot.cache)
            if not oldest or slot.used < oldest.used then oldest = slot end
         end
      end
      if total <= self.idle_bytes then return end
      oldest.cache, oldest.tokens = self.new_cache(), {}
   end
end

--- Ends a sequence and frees its slot.
---@param sequence table
---@param reason string
---@param problem? any  the error that has ended the sequence
function Scheduler:finish(sequence, reason, problem)
   if sequence.reason then return end
   sequence.reason, sequence.error = reason, problem
   remove(self.waiting, sequence)
   remove(self.open, sequence)
   if sequence.slot then
      self.clock = self.clock + 1
      sequence.slot.used, sequence.slot.sequence, sequence.slot = self.clock, nil, nil
      drop_idle(self)
   end
end

-- The least number of tokens for which keys and values of another slot are copied.
local worth_copying <const> = 16

-- Returns the slot in use whose tokens have the longest common beginning with `tokens`, and its
-- length. Returns false if a longer beginning is just being computed there, so that waiting pays.
local function find_source(self, tokens)
   local best, most = nil, 0
   for _, other in ipairs(self.open) do
      local n = common(other.slot.tokens, tokens)
      local later = common(other.tokens, tokens)
      if later >= n + worth_copying then return false end
      if n > most then best, most = other.slot, n end
   end
   return best, most
end

-- Prepares a free slot for tokens: keeps or copies the keys and values of a common beginning. At
-- least one token is computed, since its logits are needed.
local function prepare(self, slot, shared, source, copied, most)
   shared, copied = math.min(shared, most), math.min(copied, most)
   if source and copied >= shared + worth_copying then
      local cache = source.cache:copy(copied)
      if cache then
         slot.cache, slot.tokens = cache, table.move(source.tokens, 1, copied, 1, {})
         return
      end
   end
   crop(self, slot, shared)
end

-- Gives free slots to waiting sequences, in their order.
local function admit(self)
   local i = 1
   while i <= #self.waiting do
      local sequence = self.waiting[i]
      local slot, shared = choose(self, sequence.tokens)
      if not slot then return end
      local source, copied = find_source(self, sequence.tokens)
      if source == false then
         i = i + 1
      else
         prepare(self, slot, shared, source, copied, #sequence.tokens - 1)
         sequence.cached = #slot.tokens
         slot.sequence, sequence.slot = sequence, slot
         table.remove(self.waiting, i)
         self.open[#self.open + 1] = sequence
      end
   end
end

-- Steps -----------------------------------------------------------------------------------------

-- Calls a function for a sequence. An error ends this sequence alone; then the result is nil.
local function guard(self, sequence, fn, ...)
   local ok, a, b = pcall(fn, ...)
   if ok then return a, b end
   if type(a) == "string" and a:find("interrupted!", 1, true) then error(a, 0) end
   self:finish(sequence, "error", a)
end

-- Adds the next `count` tokens of a sequence. A part that ends the sequence may have a draft of up
-- to `most` further tokens.
local function add_part(self, parts, sequence, count, most)
   local slot = sequence.slot
   local first = #slot.tokens + 1
   local part = {sequence = sequence, cache = slot.cache, first = first, draft = {},
      drawn_from = {}, tokens = table.move(sequence.tokens, first, first + count - 1, 1, {}),
      is_last = first + count - 1 == #sequence.tokens}
   if part.is_last and sequence.hooks.draft and most > 0 then
      part.draft, part.drawn_from = guard(self, sequence, sequence.hooks.draft, sequence.tokens,
         most)
      if sequence.reason then return 0 end
      table.move(part.draft, 1, #part.draft, count + 1, part.tokens)
   end
   parts[#parts + 1] = part
   return #part.tokens
end

-- Returns the tokens that the next step computes: {sequence, cache, tokens, is_last, draft} for
-- each sequence. Sequences that generate come first.
local function plan(self)
   local parts, room = {}, self.n_batch
   for _, sequence in ipairs(self.open) do
      -- The last token is computed again if a step ended before it had read the token's logits.
      local slot = sequence.slot
      crop(self, slot, math.min(#slot.tokens, #sequence.tokens - 1))
   end
   for pass = 1, 2 do
      for _, sequence in ipairs(table.move(self.open, 1, #self.open, 1, {})) do
         local need = #sequence.tokens - #sequence.slot.tokens
         if room > 0 and (need == 1) == (pass == 1) then
            local count = math.min(need, room)
            room = room - add_part(self, parts, sequence, count, room - count)
         end
      end
   end
   return parts
end

-- Computes the parts. Returns the logits of the last position of each part that ends its sequence,
-- and of its draft's positions.
local function compute(self, parts)
   local ids, rows = {}, {}
   for _, part in ipairs(parts) do
      part.count = #part.tokens
      table.move(part.tokens, 1, part.count, #ids + 1, ids)
      for i = part.is_last and #part.draft or -1, 0, -1 do rows[#rows + 1] = #ids - i end
   end
   local like = {dtype = "int64", device = self.device}
   local result = self.model {input_ids = torch.tensor({ids}, like),
      past_key_values = CacheBatch(parts),
      logits_to_keep = torch.tensor(#rows > 0 and rows or {#ids}, like)}
   for _, part in ipairs(parts) do
      local slot = part.sequence.slot
      table.move(part.tokens, 1, part.count, #slot.tokens + 1, slot.tokens)
   end
   local logits = result.logits[1]
   if self.vocab and self.vocab < logits:size(2) then logits = logits:narrow(2, 1, self.vocab) end
   return logits:to("cpu"):float()
end

-- Chooses the next tokens of a part's sequence, one more than it takes from the draft. `logits` has
-- the rows of the part. Returns the reason of the end or nil.
local function extend(part, logits)
   local sequence = part.sequence
   local tokens, sampler = sequence.tokens, sequence.hooks.sampler
   sequence.drafted = sequence.drafted + #part.draft
   for i = 1, #part.draft + 1 do
      local distribution, draft = sampler:distribution(logits[i], tokens), part.draft[i]
      local token, is_accepted
      if draft then
         token, is_accepted = sampler:verify(distribution, draft, part.drawn_from[i])
      else
         token = sampler:draw(distribution)
      end
      tokens[#tokens + 1] = token
      if is_accepted then sequence.accepted = sequence.accepted + 1 end
      local reason = sequence.hooks.accept(token)
      if reason or not is_accepted then return reason end
   end
end

-- Crops a slot to the tokens that it shares with its sequence, after a draft.
local function drop_draft(self, part, slot)
   if #part.draft > 0 then
      local last = part.first + #part.tokens - #part.draft - 1
      while last < #slot.tokens and slot.tokens[last + 1] == part.sequence.tokens[last + 1] do
         last = last + 1
      end
      crop(self, slot, last)
   end
end

--- Returns a list with the current coroutine, which the list does not keep from being collected.
---@return table
function Scheduler.weak_list()
   return setmetatable({(coroutine.running())}, {__mode = "v"})
end

-- Returns whether the coroutine of a weak list will never continue.
local function is_gone(list)
   local function is_dead() return not list[1] or coroutine.status(list[1]) == "dead" end
   if not is_dead() and coroutine.status(list[1]) == "suspended" then collectgarbage() end
   return is_dead()
end

-- Marks the scheduler as busy until the result is closed.
local function busy(self)
   self.running = Scheduler.weak_list()
   return setmetatable({}, {__close = function() self.running = nil end})
end

-- Ends the step of a coroutine that was abandoned in a function of the user's, and the sequences
-- that only this coroutine would have read.
function Scheduler:_recover()
   if not self.running or not is_gone(self.running) then return end
   self.running = nil
   for _, list in ipairs {self.open, self.waiting} do
      for i = #list, 1, -1 do
         local owner = list[i].hooks.owner
         if owner and is_gone(owner) then self:finish(list[i], "cancelled") end
      end
   end
end

--- Computes one step. Returns the number of sequences that have not ended. An error of the model
--- itself is raised, and leaves all sequences as they were before the step.
---@return integer
function Scheduler:step()
   self:_recover()
   if self.running then
      torch.raise "llm: a function that is called during a step cannot compute another one"
   end
   local _ <close> = torch.no_grad()
   local _ <close> = busy(self)
   admit(self)
   if #self.open == 0 then return 0 end
   local parts = plan(self)
   if #parts == 0 then return #self.open + #self.waiting end
   local logits, row = compute(self, parts), 0
   for _, part in ipairs(parts) do
      local count, slot = part.is_last and #part.draft + 1 or 0, part.sequence.slot
      if count > 0 then
         local own = logits:narrow(1, row + 1, count)
         local reason = guard(self, part.sequence, extend, part, own)
         drop_draft(self, part, slot)
         if reason then self:finish(part.sequence, reason) end
      end
      row = row + count
   end
   return #self.open + #self.waiting
end

--- Returns a cache with one token, whose buffers show the shapes and dtypes of the model's caches.
---@return text.Cache
function Scheduler:sample_cache()
   local _ <close> = torch.no_grad()
   local cache = self.new_cache()
   self.model(torch.ones(1, 1, {dtype = "int64", device = self.device}),
      {past_key_values = cache, logits_to_keep = 1})
   return cache
end

--- Computes all tokens in the first slot, which must be free. Returns the logits (keep, V) of the
--- last `keep` positions, float32 on the CPU.
---@param tokens integer[]
---@param keep integer
---@return Tensor
function Scheduler:logits(tokens, keep)
   local slot, first, list = self:free_slot(), 1, {}
   empty(self, slot)
   while first <= #tokens do
      local last = math.min(#tokens, first + self.n_batch - 1)
      local ids = torch.tensor({table.move(tokens, first, last, 1, {})},
         {dtype = "int64", device = self.device})
      local wanted = math.max(1, last - math.max(first, #tokens - keep + 1) + 1)
      local result = self.model(ids, {past_key_values = slot.cache, logits_to_keep = wanted})
      if last > #tokens - keep then list[#list + 1] = result.logits[1]:to("cpu"):float() end
      table.move(tokens, first, last, first, slot.tokens)
      first = last + 1
   end
   return #list == 1 and list[1] or torch.cat(list, 1)
end

return Scheduler
