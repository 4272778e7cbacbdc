-- Notes how far the index is filled. Returns 1; 0 where another program has the duty to keep it, or the index was lost since.
-- ARGV: owner, jobs found, jobs to find, the name of this filling where all were found ('' before)
local index = KEYS[1]
if redis.call('HGET', index, 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', index, 'found', ARGV[2], 'total', ARGV[3])
if ARGV[4] ~= '' and not redis.call('HGET', index, 'filling') then
  redis.call('HSET', index, 'filling', ARGV[4])
end
return 1
