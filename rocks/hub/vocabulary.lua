-- vocabulary.lua - describes the parameters of torch.hub, for help and the manual. The format is
-- explained in lua/tlua/repl/vocabulary.lua.
return [[
check_hash: whether files are compared with their checksums, or with the one in the URL
d: the folder
dst: the file's path
endpoint: the server's URL
file_name: the file's name in the cache
files: the names of the files
force_reload: whether files in the cache are fetched again
hash_prefix: the beginning of the file's SHA-256 checksum
map_location: where the tensors go
max_bytes: the largest size of a file
model: the model's name, or the table that hub.pack writes
model_dir: the folder that keeps the file
offline: whether nothing is fetched
options: the options of the hub and of the model
path: the file's path
progress: whether a terminal shows the progress
repo_or_dir: the repository, a folder, a file or a URL
revision: a branch, a tag or a commit
source: where the repository is: "huggingface", "github" or "local"
timeout: the seconds without a byte after which a server counts as silent
token: the token for private repositories
trust: whether hubconf.lua of a folder may run
url: the file's URL
weights_only: always true
]]
