-- embedding.lua - writes points for TensorBoard's projector into the folder of a run: numbers and
-- labels as text tables, images as one PNG, and projector_config.pbtxt, which names these files.

local torch = require "tlua"
local args = require "tlua.args"
local wire = require "tlua.tensorboard.wire"

local M = {}

local who <const> = "add_embedding"

local function cell(value) return (tostring(value):gsub("[\t\r\n]", " ")) end

-- Formats labels as a text table with one row for each label. With `header`, each label is a list
-- of cells, and the first row is the header.
local function metadata_table(labels, header, n)
   if type(labels) ~= "table" then args.refuse(who, "metadata", "a list of labels", labels) end
   if #labels ~= n then
      torch.raise(("%s: metadata: expected %d labels, got %d"):format(who, n, #labels))
   end
   if header and (type(header) ~= "table" or #header == 0) then
      args.refuse(who, "metadata_header", "a list of names", header)
   end
   local lines = {}
   local function add(row)
      local cells = {}
      for i = 1, #header do cells[i] = cell(row[i]) end
      lines[#lines + 1] = table.concat(cells, "\t") .. "\n"
   end
   if header then add(header) end
   for i, label in ipairs(labels) do
      if not header then
         lines[i] = cell(label) .. "\n"
      elseif type(label) == "table" and #label == #header then
         add(label)
      else
         args.refuse(who, ("metadata[%d]"):format(i), ("a list of %d values"):format(#header),
            label)
      end
   end
   return table.concat(lines)
end

-- Arranges n images (N, C, H, W) in a square grid with k rows and columns. k is the smallest number
-- for which all images fit. Returns an image (k H, k W, 3) of uint8.
local function sprite(images, n)
   if not torch.is_tensor(images) or images:dim() ~= 4 then
      args.refuse(who, "label_img", "a tensor (N, C, H, W)", images)
   end
   local count, c, h, w = table.unpack(images.shape)
   if count ~= n then
      torch.raise(("%s: label_img: expected %d images, got %d"):format(who, n, count))
   end
   if c ~= 1 and c ~= 3 then
      torch.raise(("%s: label_img: expected 1 or 3 channels, got %d"):format(who, c))
   end
   local k = math.ceil(math.sqrt(n))
   local cells = torch.zeros(k * k, c, h, w, {dtype = images.dtype})
   cells[{{1, n}}] = images:detach():to "cpu"
   local sheet = cells:view(k, k, c, h, w):permute(1, 4, 2, 5, 3):reshape(k * h, k * w, c)
   return wire.pixels(sheet:expand(-1, -1, 3))
end

local function quoted(text)
   return '"' .. text:gsub('[\\"\n]', {["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n"}) .. '"'
end

-- Converts a tag to the name of a folder, as PyTorch does: %, / and \ are replaced by codes.
local function folder_name(tag)
   return (tag:gsub("[%%/\\]", function(c) return ("%%%02x"):format(c:byte()) end))
end

--- Writes the points through two functions: `write(path, text)` writes a file below the run's
--- folder, and `make_folder(path)` creates a folder there. The other arguments are those of
--- SummaryWriter:add_embedding.
---@param matrix Tensor  (N, D)
---@param options {tag: string, global_step: integer, [string]: any}
---@return string config  the embedding's part of projector_config.pbtxt
---@return string name  the name of the embedding: its step and tag
function M.write(matrix, options, make_folder, write)
   if not torch.is_tensor(matrix) or matrix:dim() ~= 2 then
      args.refuse(who, "mat", "a tensor (N, D)", matrix)
   end
   local tag, step = options.tag, options.global_step
   if tag == "" or tag:find "%z" then args.refuse(who, "tag", "a name", tag) end
   if options.metadata_header ~= nil and options.metadata == nil then
      torch.raise(who .. ": metadata_header: expected none without metadata")
   end
   local n, files = matrix.shape[1], {}
   local name = ("%05d/%s"):format(step, folder_name(tag))
   local config = ("embeddings {\n  tensor_name: %s\n  tensor_path: %s\n"):format(
      quoted(("%s:%05d"):format(tag, step)), quoted(name .. "/tensors.tsv"))
   if options.metadata ~= nil then
      files["metadata.tsv"] = metadata_table(options.metadata, options.metadata_header, n)
      config = config .. ("  metadata_path: %s\n"):format(quoted(name .. "/metadata.tsv"))
   end
   if options.label_img ~= nil then
      files["sprite.png"] = wire.png(sprite(options.label_img, n))
      config = config .. ("  sprite {\n    image_path: %s\n    single_image_dim: %d\n"
         .. "    single_image_dim: %d\n  }\n"):format(quoted(name .. "/sprite.png"),
         options.label_img.shape[4], options.label_img.shape[3])
   end
   local rows = {}
   for i, row in ipairs(matrix:detach():to("cpu"):double():tolist()) do
      rows[i] = table.concat(row, "\t") .. "\n"
   end
   files["tensors.tsv"] = table.concat(rows)
   make_folder(name)
   for file, text in pairs(files) do write(name .. "/" .. file, text) end
   return config .. "}\n", name
end

return M
