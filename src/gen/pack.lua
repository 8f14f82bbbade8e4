-- pack.lua: packs texts by LZ77 with Huffman codes that all texts share, so that a short text needs
-- no table of its own. src/lua/embed.c unpacks them.
--
-- A packed text is a sequence of codes; the bits of each byte are filled from the highest one. A
-- symbol below 256 is a byte of the text. Any larger symbol means a copy of earlier text. The
-- symbol is 256 plus the bucket of (length - MIN_COPY); the low bits of (length - MIN_COPY) follow
-- it. After them, the second code gives the bucket of (distance - 1), followed by the low bits of
-- (distance - 1). Buckets 0 and 1 contain one number each. Bucket 2 e + h contains the numbers that
-- have e + 1 bits and whose second highest bit is h; e - 1 low bits distinguish them.
local pack = {}

pack.MIN_COPY = 4
pack.CODE_BITS = 11 -- number of bits of the longest code

-- length of the longest copy; the limit bounds the search in long runs of one byte
local MAX_COPY <const> = 4096
local CANDIDATES <const> = 24 -- maximum number of earlier positions that a search tries
-- a copy at least this long is used at once, without a check whether a longer one begins at the
-- next byte
local LONG <const> = 32

-- ---- copies ----

-- Returns the length and the distance of the longest copy of earlier text that can begin at
-- position `at`. `place` is the last earlier position with the same first bytes. links[place] is
-- the position before `place` with these bytes, and so on.
local function longest(bytes, at, place, links)
   local best, distance = pack.MIN_COPY - 1, nil
   local last = math.min(#bytes - at + 1, MAX_COPY)
   for _ = 1, CANDIDATES do
      if not place or best >= last then break end
      if bytes[place + best] == bytes[at + best] then
         local n = 0
         while n < last and bytes[place + n] == bytes[at + n] do n = n + 1 end
         if n > best then best, distance = n, at - place end
      end
      place = links[place]
   end
   return best, distance
end

-- Returns, for each position of a text, the first MIN_COPY bytes at this position as one number.
-- The last positions have no number, because fewer bytes follow.
local function keys_of(bytes)
   local keys, key = {}, 0
   for at = 1, #bytes do
      key = key >> 8 | bytes[at] << 8 * (pack.MIN_COPY - 1)
      keys[at - pack.MIN_COPY + 1] = key
   end
   return keys
end

-- Converts a text to a list of steps. A step is a byte, or two numbers: 256 plus the length of a
-- copy, and the copy's distance.
local function parse(text)
   local bytes, steps, heads, links = {}, {}, {}, {}
   local size = #text
   for at = 1, size do bytes[at] = text:byte(at) end
   local keys = keys_of(bytes)
   local function enter(at)
      local key = keys[at]
      if key then links[at], heads[key] = heads[key], at end
   end
   local at, length, distance = 1, nil, nil
   while at <= size do
      if not length then length, distance = longest(bytes, at, heads[keys[at] or 0], links) end
      enter(at)
      local next_length, next_distance
      if distance and length < LONG then -- checks whether a longer copy begins at the next byte
         next_length, next_distance = longest(bytes, at + 1, heads[keys[at + 1] or 0], links)
      end
      if distance and not (next_distance and next_length > length) then
         steps[#steps + 1], steps[#steps + 2] = 256 + length, distance
         for i = at + 1, at + length - 1 do enter(i) end
         at, length = at + length, nil
      else
         steps[#steps + 1] = bytes[at]
         at, length, distance = at + 1, next_length, next_distance
      end
   end
   return steps
end

-- ---- codes ----

-- Returns the bucket of a number, and the number of low bits that follow the bucket's code.
local function bucket_of(number)
   if number < 2 then return number, 0 end
   local e = 1
   while number >> e + 1 > 0 do e = e + 1 end
   return 2 * e + (number >> e - 1 & 1), e - 1
end

-- Returns the code lengths, in bits, of a Huffman code for symbols with these counts.
local function huffman_lengths(counts)
   local nodes, lengths = {}, {}
   for symbol, count in pairs(counts) do nodes[#nodes + 1] = {count = count, symbol = symbol} end
   if #nodes == 1 then return {[nodes[1].symbol] = 1} end
   local function by_count(a, b)
      if a.count ~= b.count then return a.count < b.count end
      return a.symbol < b.symbol
   end
   while #nodes > 1 do
      table.sort(nodes, by_count)
      local a, b = table.remove(nodes, 1), table.remove(nodes, 1)
      nodes[#nodes + 1] = {count = a.count + b.count, symbol = math.min(a.symbol, b.symbol), a, b}
   end
   local function descend(node, depth)
      if not node[1] then
         lengths[node.symbol] = depth
      else
         descend(node[1], depth + 1)
         descend(node[2], depth + 1)
      end
   end
   if nodes[1] then descend(nodes[1], 0) end
   return lengths
end

-- Returns the symbols' code lengths. If a length exceeds CODE_BITS, the lengths are computed again
-- from counts that differ less.
local function bounded_lengths(counts)
   local lengths = huffman_lengths(counts)
   for _, length in pairs(lengths) do
      if length > pack.CODE_BITS then
         local flatter = {}
         for symbol, count in pairs(counts) do flatter[symbol] = (count + 1) // 2 end
         return bounded_lengths(flatter)
      end
   end
   return lengths
end

-- Returns the canonical code for these counts, as the bits and the length for each symbol, and the
-- decoding table. Entry i of the decoding table, counted from 0, serves input whose next CODE_BITS
-- bits are i. The entry is 16 times the symbol whose code these bits begin with, plus the length of
-- the code.
local function make_code(counts)
   local lengths = bounded_lengths(counts)
   local symbols, bits, entries = {}, {}, {}
   for symbol in pairs(lengths) do symbols[#symbols + 1] = symbol end
   table.sort(symbols, function(a, b)
      if lengths[a] ~= lengths[b] then return lengths[a] < lengths[b] end
      return a < b
   end)
   for _, symbol in ipairs(symbols) do
      local length = lengths[symbol]
      bits[symbol] = #entries >> pack.CODE_BITS - length
      for _ = 1, 1 << pack.CODE_BITS - length do entries[#entries + 1] = symbol * 16 + length end
   end
   for i = #entries + 1, 1 << pack.CODE_BITS do entries[i] = 0 end
   return {bits = bits, lengths = lengths}, entries
end

-- ---- bits ----

local function counts_of(parsed)
   local symbols, distances = {}, {}
   for _, steps in ipairs(parsed) do
      local at = 1
      while at <= #steps do
         local step = steps[at]
         if step >= 256 then
            step = 256 + bucket_of(step - 256 - pack.MIN_COPY)
            at = at + 1
            local bucket = bucket_of(steps[at] - 1)
            distances[bucket] = (distances[bucket] or 0) + 1
         end
         symbols[step] = (symbols[step] or 0) + 1
         at = at + 1
      end
   end
   return symbols, distances
end

local function encode(steps, symbol_code, distance_code)
   local packed, held, count = {}, 0, 0
   local function write(number, bits)
      held, count = held << bits | number & (1 << bits) - 1, count + bits
      while count >= 8 do
         count = count - 8
         packed[#packed + 1] = string.char(held >> count & 255)
         held = held & (1 << count) - 1
      end
   end
   local function write_number(code, base, number)
      local bucket, low_bits = bucket_of(number)
      write(code.bits[base + bucket], code.lengths[base + bucket])
      write(number, low_bits)
   end
   local at = 1
   while at <= #steps do
      local step = steps[at]
      if step < 256 then
         write(symbol_code.bits[step], symbol_code.lengths[step])
      else
         write_number(symbol_code, 256, step - 256 - pack.MIN_COPY)
         at = at + 1
         write_number(distance_code, 0, steps[at] - 1)
      end
      at = at + 1
   end
   if count > 0 then write(0, 8 - count) end
   return table.concat(packed)
end

--- Packs texts. The unpacker may read up to 3 bytes behind a packed text but ignores their values.
---@param texts string[]
---@return string[] packed
---@return integer[] symbols    the table by which the first code is read, of 2^CODE_BITS entries
---@return integer[] distances  the same table for the second code
function pack.pack(texts)
   local packed = {}
   for i, text in ipairs(texts) do packed[i] = parse(text) end
   local symbol_counts, distance_counts = counts_of(packed)
   local symbol_code, symbols = make_code(symbol_counts)
   local distance_code, distances = make_code(distance_counts)
   for i, steps in ipairs(packed) do packed[i] = encode(steps, symbol_code, distance_code) end
   return packed, symbols, distances
end

return pack
