set -euo pipefail

# Where everything goes; Azure's command line is told once.
ENDPOINT_NAME="digits-batch"
ENDPOINT_SUFFIX=$(echo $RANDOM | tr '0-9' 'a-j')
ENDPOINT_NAME="$ENDPOINT_NAME-$ENDPOINT_SUFFIX"

echo "Creating the endpoint"
az ml batch-endpoint create --file endpoint.yml --name $ENDPOINT_NAME
az ml batch-endpoint show --name $ENDPOINT_NAME --query name -o tsv

echo "Registering the data"
az ml data create --name digits-sampled --path data --type uri_folder --description "Digits as rows of ink."
DATA_ID=$(az ml data show --name digits-sampled --label latest --query version -o tsv)

echo "Creating the first deployment"
DEPLOYMENT_NAME="digits-torch-dpl"
az ml batch-deployment create --file deployment-torch/deployment.yml --endpoint-name $ENDPOINT_NAME --set-default
az ml batch-deployment show --name $DEPLOYMENT_NAME --endpoint-name $ENDPOINT_NAME
az ml batch-deployment list --endpoint-name $ENDPOINT_NAME --query "[].name"

echo "Calling the endpoint with data of this machine"
JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --input data --query name -o tsv)
az ml job stream --name $JOB_NAME
STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
echo "The job of the first deployment: $STATUS"
if [[ $STATUS == "Completed" ]]; then
  echo "Job completed"
elif [[ $STATUS == "Failed" ]]; then
  echo "Job failed"
  exit 1
else
  echo "Job status not failed or completed"
  exit 2
fi

echo "Calling it with registered data, and other settings"
OUTPUT_FILE_NAME="rows_$ENDPOINT_SUFFIX.csv"
JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --input azureml:digits-sampled:$DATA_ID --input-type uri_folder \
  --set output_file_name=$OUTPUT_FILE_NAME --mini-batch-size 2 --instance-count 1 --query name -o tsv)
az ml job stream --name $JOB_NAME
az ml job download --name $JOB_NAME --output-name score --download-path ./named
find ./named -name $OUTPUT_FILE_NAME -exec cp {} named.csv \;

echo "Waiting for another one without a stream"
JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --input azureml:digits-sampled@latest --query name -o tsv)
STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
while [[ $STATUS != "Completed" && $STATUS != "Failed" && $STATUS != "Canceled" ]]; do
  sleep 1
  STATUS=$(az ml job show -n $JOB_NAME --query status -o tsv)
done
[[ $STATUS == "Completed" ]] || exit 3

echo "The jobs so far"
az ml batch-deployment list-jobs --name $DEPLOYMENT_NAME --endpoint-name $ENDPOINT_NAME --query "[].name"
az ml batch-endpoint list-jobs --name $ENDPOINT_NAME --query "[].{Name:name, Status:status}"

echo "Creating the second deployment, of another framework"
DEPLOYMENT_NAME="digits-keras-dpl"
az ml batch-deployment create --file deployment-keras/deployment.yml --endpoint-name $ENDPOINT_NAME
JOB_NAME=$(az ml batch-endpoint invoke --name $ENDPOINT_NAME --deployment-name $DEPLOYMENT_NAME --input data --query name -o tsv)
az ml job stream --name $JOB_NAME
az ml job download --name $JOB_NAME --output-name score --download-path ./fetched

echo "Making it the default"
az ml batch-endpoint update --name $ENDPOINT_NAME --set defaults.deployment_name=$DEPLOYMENT_NAME
DEFAULT=$(az ml batch-endpoint show --name $ENDPOINT_NAME --query "{Name:name, Defaults:defaults}" -o json)
[[ $DEFAULT == *"\"$DEPLOYMENT_NAME\""* ]] || exit 4
az ml batch-endpoint show --name $ENDPOINT_NAME --query scoring_uri -o tsv

echo "Cleaning up"
az ml batch-deployment delete --name digits-torch-dpl --endpoint-name $ENDPOINT_NAME --yes
az ml batch-endpoint delete --name $ENDPOINT_NAME --yes
