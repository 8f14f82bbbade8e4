-- Shows datasets, samplers, a collate function and workers, as PyTorch's data tutorial uses them:
--
--    tlua examples/ported/loaders.lua
local torch = require "tlua"
local data = torch.data

-- A dataset that computes its items, which are words of different lengths.
local Words = torch.class("Words", data.Dataset)

function Words:__init(n, transform)
   self.n, self.transform = n, transform
end

function Words:__len() return self.n end

function Words:get(i)
   local ids = torch.arange(1, i % 5 + 2)
   if self.transform then ids = self.transform(ids) end
   return {ids = ids, label = i % 3 + 1}
end

-- Pads a batch of words to the longest one. An item is a list of the values that `get` returned.
local function collate(items)
   local ids, lengths, labels = {}, {}, {}
   for i, item in ipairs(items) do
      local word = item[1]
      ids[i], lengths[i], labels[i] = word.ids, #word.ids, word.label
   end
   return {
      ids = torch.nn.utils.rnn.pad_sequence(ids, {batch_first = true}),
      lengths = torch.tensor(lengths), labels = torch.tensor(labels),
   }
end

local words = Words(100, function(ids) return ids * 10 end)
print(("%d words, the seventh has %d letters"):format(#words, #words[7].ids))

local weights = torch.ones(100)
weights[{{1, 50}}] = 0 -- a weight of 0 excludes the first half
local sampler = data.WeightedRandomSampler(weights, 40, {replacement = true})
for _, workers in ipairs {0, 2} do
   torch.manual_seed(1)
   local loader = data.DataLoader(words, {batch_size = 8, sampler = sampler, collate_fn = collate,
      num_workers = workers})
   local seen, letters = 0, 0
   for i, batch in loader:enumerate() do
      seen = seen + batch.labels:size(1)
      letters = letters + batch.lengths:sum():item()
      assert(batch.ids:size(1) == 8 and i <= #loader)
   end
   print(("%d workers: %d words, %d letters in %d batches"):format(workers, seen, letters, #loader))
end

local both = words + Words(20)
local train, test = data.random_split(both, {0.75, 0.25})
print(("%d to train with, %d to test with"):format(#train, #test))
