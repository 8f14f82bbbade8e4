-- Batch.lua - a batch of texts that a model continues together.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- A text that a batch continues. llm.Batch:add returns it.
---
---     local batch = io.open "model.gguf" and torch.llm.load("model.gguf"):batch()
---     local hello = batch and batch:add("hello", {max_tokens = 4})
---     if batch then batch:run() end
---     print(not hello or hello.finish_reason ~= nil)
---     --> true
---@class llm.Sequence
---@field text string  the new text so far, without an end that may begin a stop text
---@field tokens integer[]  the prompt's tokens followed by the new tokens
---@field prompt_tokens integer  the number of tokens of the prompt
---@field cached_tokens integer  the number of the prompt's tokens that were already cached
---@field drafted_tokens integer  the number of tokens that a draft has proposed
---@field accepted_tokens integer  the number of proposed tokens that were accepted
---@field finish_reason? string  "stop", "length", "cancelled" or "error"; nil until the end
---@field error any  the error that has ended the sequence
local Sequence = class.class("llm.Sequence")
M.Sequence = Sequence

function Sequence:__init() -- luacheck: ignore self
   torch.raise "llm.Sequence: use llm.Batch.add"
end

local readers = {
   text = function(own) return own.stream.text:sub(1, own.stream.sent) end,
   tokens = function(own) return own.entry.tokens end,
   prompt_tokens = function(own) return own.entry.prompt end,
   cached_tokens = function(own) return own.entry.cached end,
   drafted_tokens = function(own) return own.entry.drafted end,
   accepted_tokens = function(own) return own.entry.accepted end,
   finish_reason = function(own) return own.entry.reason end,
   error = function(own) return own.entry.error end,
}

function Sequence:__index(name)
   local read = readers[name]
   if read then return read(rawget(self, "own")) end
   return Sequence[name]
end

--- Ends the sequence, and frees its place in the batch. The other sequences continue.
function Sequence:cancel()
   local own = rawget(self, "own")
   own.scheduler:finish(own.entry, "cancelled")
end

function Sequence:__tostring()
   return ("llm.Sequence(%d + %d tokens%s)"):format(self.prompt_tokens,
      #self.tokens - self.prompt_tokens, self.finish_reason and ", " .. self.finish_reason or "")
end

--- Texts that a model continues together. llm.Model:batch returns a batch. Each text has its own
--- options. Texts may be added and cancelled between two steps. With temperature 0, each text gets
--- the tokens that it would get alone, except where rounding errors change which token is most
--- likely.
---
---     local batch = io.open "model.gguf" and torch.llm.load("model.gguf"):batch()
---     for _, text in ipairs {"hello", "good morning"} do
---        if batch then batch:add(text, {max_tokens = 4}) end
---     end
---     while batch and batch:step() > 0 do end
---     print(not batch or batch:step() == 0)
---     --> true
---@class llm.Batch
---@field n_parallel integer  the largest number of sequences that are computed together; further
--- sequences wait
local Batch = class.class("llm.Batch")
M.Batch = Batch

function Batch:__init() -- luacheck: ignore self
   torch.raise "llm.Batch: use llm.Model.batch"
end

-- Creates a batch of a model.
function M._new(model, scheduler)
   return setmetatable({model = model, scheduler = scheduler,
      n_parallel = scheduler.n_parallel}, Batch)
end

-- Creates a sequence. `own` holds its internal fields: scheduler, entry and stream.
function M._sequence(own) return setmetatable({own = own}, Sequence) end

--- Adds a text, which is computed from the next step on. If n_parallel texts are being computed
--- already, the new text waits until one of them has ended.
---@param prompt string|integer[]
---@param options? table  as in llm.Model.generate; echo is not allowed
---@return llm.Sequence
function Batch:add(prompt, options)
   local title <const> = "llm.Batch.add"
   if type(options) == "table" and options.echo then
      args.refuse(title, "echo", "nothing", options.echo)
   end
   return self.model:_add(self.scheduler, title, prompt, options)
end

--- Computes one step: the next token of each sequence, and parts of prompts. A step computes at
--- most n_batch tokens altogether. Returns the number of sequences that have not ended. An error in
--- a sequence, such as an error of its stream function, ends only this sequence and is stored in
--- its field `error`.
---@return integer
function Batch:step() return self.scheduler:step() end

--- Computes steps until all sequences have ended.
function Batch:run()
   while self.scheduler:step() > 0 do end -- luacheck: ignore 542
end

function Batch:__tostring()
   return ("llm.Batch(n_parallel=%d, %d open)"):format(self.n_parallel,
      #self.scheduler.open + #self.scheduler.waiting)
end

return M
