//! The examples at the end of each command's help.

/// How a new user begins.
pub(super) const PRS: &str = "\
Examples:
  prs submit job.yml        # run a job here, or on the fleet you name
  prs errors @latest        # why items are missing from its result
  prs submit --help         # the options of a command, with examples";

pub(super) const SUBMIT: &str = "\
Examples:
  prs submit job.yml
  prs submit job.yml --set mini_batch_size=50 --set run_max_try=5
  prs submit job.yml --detach -o json       # on a fleet: print the id and leave";

pub(super) const EXPLAIN: &str = "\
Examples:
  prs explain                               # the keys there are
  prs explain node_count
  prs explain inputs.mode -o json";

pub(super) const VALIDATE: &str = "\
Examples:
  prs validate job.yml
  prs validate job.yml --set mini_batch_size=1MB -o json";

pub(super) const TRY: &str = "\
Examples:
  prs try job.yml                           # the first mini-batch
  prs try job.yml --item data/7.png         # the one that has this file
  prs try job.yml --item data/3.csv:48211   # the one that has this row, from 0
  prs try @latest --failed --pdb            # the first that failed, with pdb";

pub(super) const RESUME: &str = "\
Examples:
  prs resume @latest
  prs resume score --code new               # with the script as it is now
  prs resume prs-runs/score-1 --set run_max_try=5";

pub(super) const RESULT: &str = "\
Examples:
  prs result @latest
  prs result score --output-path results/";

pub(super) const RESUBMIT: &str = "\
Examples:
  prs resubmit @latest --set mini_batch_size=50
  prs resubmit score --detach";

pub(super) const STATUS: &str = "\
Examples:
  prs status @latest
  prs status score -o json";

pub(super) const LIST: &str = "\
Examples:
  prs list
  prs list --state failed --since 2d
  prs list --name score -n 5 --watch";

pub(super) const SHOW: &str = "\
Examples:
  prs show @latest
  prs show score -o json";

pub(super) const STREAM: &str = "\
Examples:
  prs stream @latest
  prs stream score -o json                  # then its result as data";

pub(super) const ERRORS: &str = "\
Examples:
  prs errors @latest
  prs errors score --items                  # the items that failed, one a line";

pub(super) const REPORT: &str = "\
Examples:
  prs report @latest --open
  prs report score --file score.html        # one file, which can be mailed";

pub(super) const LOGS: &str = "\
Examples:
  prs logs @latest                          # which logs there are
  prs logs score --file job_result.txt
  prs logs score --follow
  prs logs @failed --failed                 # what processes with errors wrote";

pub(super) const CANCEL: &str = "\
Examples:
  prs cancel @latest
  prs cancel score-20261121-120000-1a2b";

pub(super) const RM: &str = "\
Examples:
  prs rm score-20261121-120000-1a2b
  prs rm --state failed --older 7d --yes";

pub(super) const GC: &str = "\
Examples:
  prs gc                                    # what would go, and how large it is
  prs gc --older 30d --yes";

pub(super) const DATASET: &str = "\
Examples:
  prs dataset create --name iris --path ./iris
  prs dataset create --file iris.yml --version 3
  prs dataset list
  prs dataset show --name iris
  prs dataset archive --name iris --version 2";

pub(super) const MODEL: &str = "\
Examples:
  prs model create --name mnist --path ./model
  prs model create --name best --path azureml://jobs/score-1/outputs/model
  prs model list
  prs model update --name mnist --tag accuracy=0.98
  prs model download --name mnist --version 1 --download-path ./models";

pub(super) const ENVIRONMENT: &str = "\
Examples:
  prs environment create --file environment.yml
  prs environment create --name sklearn --file conda.yml
  prs environment list";

pub(super) const COMPONENT: &str = "\
Examples:
  prs component create --file prepare.yml
  prs component show --name prepare
  prs component archive --name prepare --version 1";

pub(super) const TOKEN: &str = "\
Examples:
  prs token create ci --role submit         # prints the token, once
  prs token create app --role invoke --endpoint heart --days 30
  prs token list
  prs token revoke 0a1b2c3d4e5f             # the second part of the token";

pub(super) const WORKER: &str = "\
Examples:
  prs worker                                # for the compute target `default`
  prs worker --target gpu --slots 4
  prs worker --exit-when-idle 600           # ends when idle for ten minutes";

pub(super) const WORKERS: &str = "\
Examples:
  prs workers
  prs workers --target gpu -o json
  prs workers drain node-a-4711-1f2e3d4c    # it lets what runs end, and ends";

pub(super) const SERVE: &str = "\
Examples:
  prs serve --open                          # jobs of this folder in the browser
  prs serve --runs /data/prs-runs --listen 127.0.0.1:9000
  prs serve --link                          # a link to the server that runs";

pub(super) const COMPLETIONS: &str = "\
Examples:
  prs completions bash > ~/.local/share/bash-completion/completions/prs
  prs completions fish > ~/.config/fish/completions/prs.fish
  prs completions zsh > ~/.prs.zsh          # and in ~/.zshrc: source ~/.prs.zsh";

pub(super) const MAN: &str = "\
Examples:
  prs man ~/.local/share/man/man1           # then: man prs-submit";

pub(super) const NEW: &str = "\
Examples:
  prs new score                             # then: prs submit score/job.yml
  prs new scores --tabular";

pub(super) const PROFILES: &str = "\
Examples:
  prs profiles
  prs profiles --profile lab -o json";

pub(super) const DOCTOR: &str = "\
Examples:
  prs doctor
  prs doctor --profile lab --environment /opt/venv";

pub(super) const ENDPOINT: &str = "\
Examples:
  prs endpoint create --name heart-classifier
  prs endpoint update --name heart-classifier --default xgb
  prs endpoint invoke --name heart-classifier --input data/
  prs endpoint list-jobs --name heart-classifier";

pub(super) const DEPLOYMENT: &str = "\
Examples:
  prs deployment create -f deployment.yml -e heart-classifier --set-default
  prs deployment update -n xgb -e heart-classifier --set mini_batch_size=20
  prs deployment list -e heart-classifier";

pub(super) const INVOKE: &str = "\
Examples:
  prs invoke heart-classifier --input data/
  prs invoke heart-classifier --input azureml:hearts@latest --query name -o tsv
  prs invoke heart-classifier -d torch --input s3://bucket/data/ -c 4";

pub(super) const JOB: &str = "\
Examples:
  prs job create -f job.yml --query name -o tsv
  prs job show -n score-20261121-120000-1a2b --query status -o tsv
  prs job download -n @latest --output-name score -p ./out";
